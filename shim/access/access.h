/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * access.h: what libsreplay_access.so, which is linked into the program, and libsreplay_verbs.so, which records it, tell each
 * other.
 *
 * The program's compiler calls a hook at each load and store (-fsanitize=thread).  The hooks of libsreplay_access.so keep those
 * to memory that was registered, and hand them over in lists.  Each list is a call like others, which a replay makes again.
 */
#ifndef ACCESS_ACCESS_H
#define ACCESS_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

enum sr_hooked_kind {
	SR_HOOKED_LOAD,
	SR_HOOKED_STORE,
	/* The load before it by this instruction was the same, and no call came in between: the program waits for the bytes to change. */
	SR_HOOKED_POLL,
};

#define SR_HOOKED_STRIDE_BITS 14

struct sr_hooked_access {
	uint64_t sn; /* of the thread's last call before it */
	uint64_t address, pc; /* pc: within the call of the hook */
	uint32_t length;
	/* Those of one instruction, each as far from the one before, are together: each one's bytes; 0: length is more than fits. */
	uint16_t width;
	uint16_t kind : 2;
	uint16_t stride : SR_HOOKED_STRIDE_BITS; /* from each one to the next; 0: width */
};

/* One bit for each page that was ever registered, by the page's number modulo their count. */
#define SR_HOOKED_PAGES (1u << 15)

/* What the hooks of one thread look at. */
struct sr_hooked_view {
	const uint8_t *pages; /* SR_HOOKED_PAGES bits */
	const uint64_t *sn;
	const uint64_t *faults; /* of exposed memory, since the last call */
};

/* Both are in libsreplay_verbs.so.  False: the thread is neither recorded nor replayed. */
bool sreplay_access_view(struct sr_hooked_view *v) __attribute__((weak));
/* faults: of each access, how many faults came before it.  (A replay may have others there, so that they are not compared.) */
void sreplay_on_accesses(const void *list, uint32_t n, void *faults) __attribute__((weak));

#endif
