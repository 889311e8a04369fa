/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * creating.h: a new thread's record comes before what that thread does.
 *
 * A thread runs before the pthread_create that made it returns.  It may end the process, crash or be killed in that time: its
 * calls would be in a trace that does not have it.  So it waits until the record of its creation is in its creator's ring.
 *
 * Recording only.
 */
#ifndef SHIM_RECORD_CREATING_H
#define SHIM_RECORD_CREATING_H

struct sr_thread;

/* A creation under way; on its creator's stack. */
struct sr_creation {
	const struct sr_thread *creator;
	struct sr_creation *next;
};

/* Around a call that makes a thread, from before the real call until its record is in the ring. */
void sr_creation_begins(struct sr_creation *c, const struct sr_thread *creator);
void sr_creation_ends(struct sr_creation *c);

/* Called by a new thread, which has its number. */
void sr_creation_await(struct sr_thread *t);

/* In a forked child: the parent's threads create none here. */
void sr_creations_forget(void);

#endif
