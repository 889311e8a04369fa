/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * announced.h: what other recorded processes write into this one's memory by process_vm_writev(2).
 *
 * Such memory is no exposed region, so no load of it is seen.  The writer announces what it is about to write, and waits
 * until this process comes to an access or a call that is recorded: what has been written by then is recorded there, and a
 * replay puts it there.  A process that comes to none, since it sleeps or computes, is not waited for; it finds at its next
 * one what was written.
 *
 * Both processes map this: it lies behind the shadow copies in the module's file, and the writer opens /proc/PID/fd/N.
 */
#ifndef SHIM_EXPOSED_PAGE_ANNOUNCED_H
#define SHIM_EXPOSED_PAGE_ANNOUNCED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "logd/base/compiler.h"
#include "shim/exposed/page/address.h"

#define ANNOUNCED_SLOTS	 16
#define ANNOUNCED_PIECES 64 /* of one announcement */

enum announced_state {
	ANNOUNCED_FREE,
	ANNOUNCED_CLAIMED, /* a writer fills the slot */
	ANNOUNCED_ASKED,
	ANNOUNCED_GRANTED, /* the owner of the memory waits for the writer */
	ANNOUNCED_FORCED,  /* the writer waits no longer for the owner */
	ANNOUNCED_WRITTEN,
	ANNOUNCED_GIVEN_UP, /* the owner waits no longer for the writer, which frees the slot */
};

struct announced_slot {
	_Atomic uint32_t state; /* a futex */
	int32_t writer;
	uint32_t n;
	struct iovec pieces[ANNOUNCED_PIECES];
};

/* Every recorded process has its own at the same address, which its writers read first. */
struct announced {
	struct announced_head {
		uint64_t id; /* 0: not ready */
		int32_t fd;
	} head;
	_Atomic uint32_t pending; /* slots that are neither free nor claimed */
	struct announced_slot slots[ANNOUNCED_SLOTS];
};

#define ANNOUNCED_BYTES ((sizeof(struct announced) + PAGE - 1) & PAGE_MASK)

/* NULL: nobody announces anything, as in a replay. */
extern struct announced *announced;

/* Recording, once.  fd: the module's file. */
void announced_init(int fd);
/* In a child of fork. */
void announced_forget(void);

NO_VECTORS static inline bool announced_any(void)
{
	return announced && atomic_load_explicit(&announced->pending, memory_order_acquire);
}

/* In an event that has begun: lets the writers that wait write, and makes values of it. */
void announced_take(void);
/* The same of what was written by those who did not wait, at any moment since the last event. */
void announced_take_late(void);
/* An event of these, if there are any: what a thread finds late, behind its last access. */
void announced_late_event(void);

#endif
