/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * announce.h: tells another recorded process what is about to be written into its memory, and waits until it is at a place
 * where it can record that (shim/exposed/page/announced.h).
 */
#ifndef SHIM_VERBS_ANNOUNCE_H
#define SHIM_VERBS_ANNOUNCE_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

struct announced_slot;

/* NULL: that process records nothing of the kind. */
struct announced_slot *sr_announce(pid_t pid, const struct iovec *pieces, size_t n);
/* So many bytes of the pieces were written.  s: may be NULL. */
void sr_announce_ends(struct announced_slot *s, long written);

#endif
