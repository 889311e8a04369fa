/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * waits.h: threads that wait in libc, for a lock or a condition, while its memory becomes exposed.
 *
 * They began with the program's address.  From then on calls of others have an alias of it (pinned.c), and a private
 * futex is told by its address: so those that sleep are woken, and look again.  Libc in them has the program's address
 * still, where the kernel cannot read a futex, and would abort the program: their system calls are trapped, and made at
 * the alias.
 */
#ifndef SHIM_VERBS_WAITS_H
#define SHIM_VERBS_WAITS_H

#include "shim/core/call.h"
#include "shim/core/thread.h"

/* Calls f for all threads that are recorded, which cannot end meanwhile.  NULL: none is. */
extern void (*sr_waits_each_thread)(void (*f)(struct sr_thread *t, void *argument), void *argument) SR_HIDDEN;

/* Around the real function of a call that takes a lock or waits for one, with the arguments that it has. */
static inline void sr_wait_begins(struct sr_thread *t, const struct sr_call_desc *d, const uint64_t *a)
{
	t->waits_in = d;
	atomic_signal_fence(memory_order_seq_cst);
	t->waits_with = a;
	atomic_signal_fence(memory_order_seq_cst);
}

extern _Atomic bool sr_waits_coming SR_HIDDEN; /* memory is about to be exposed */

/* Behind that, where there is exposed memory, or will be: it may have become exposed since the call's arguments got no alias. */
void sr_wait_looks_again(struct sr_thread *t);

static inline void sr_wait_ends(struct sr_thread *t)
{
	t->waits_with = NULL;
	if (__builtin_expect(t->waits_exposed, 0)) {
		t->waits_exposed = false;
		sr_select(t);
	}
}

/* Around what exposes memory.  Waits there are trapped from the first on; who falls asleep at the program's address in between is woken by the second. */
void sr_waits_memory_begins(const void *addr, size_t length);
void sr_waits_memory_ends(void);

/*
 * A futex of the program's own, where there is exposed memory.  Its word is given to the kernel at the alias, as libc's are: a
 * page that was passed through while a thread sleeps there would show other threads what peers write, unseen.
 */
long sr_wait_futex(const uint64_t a[6]);

/* A system call that libc makes in such a wait: the result, or -errno. */
long sr_wait_system_call(long nr, const uint64_t a[6]);

#endif
