/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch.h: the file by which `sreplay races` learns what a replayed process stores.
 *
 * struct sr_watch_head, then the addresses of the pages (u64 each); all of that by the command.  Behind them the
 * process appends struct sr_watch_store.
 */
#ifndef REPLAY_ABI_WATCH_H
#define REPLAY_ABI_WATCH_H

#include <stdint.h>

#define SR_WATCH_PAGE 4096u

struct sr_watch_head {
	uint64_t pages;
};

/*
 * Bytes that a thread found changed at the beginning of a call (fault 0), or of this access to exposed memory after
 * it: this process has stored them.
 */
struct sr_watch_store {
	uint64_t sn, address;
	uint32_t thread, length;
	uint32_t fault, reserved;
};

#endif
