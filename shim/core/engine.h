/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine.h: the interface of what records or replays this process.
 *
 * The record engine (shim/record) and the replay engine (shim/replay) implement it. All
 * lower layers reach them through sr_engine only, and only shim/start.c names both. After
 * the end of a recording or a replay, an engine whose operations do nothing takes over.
 */
#ifndef SHIM_CORE_ENGINE_H
#define SHIM_CORE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "nicclock/clock.h"
#include "shim/core/call.h"

struct sr_idle;
struct sr_image_origin;
struct sr_signal_payload;
struct sr_thread;

struct sr_engine {
	/* Makes every outermost call of the program. */
	uint64_t (*call)(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);

	/*
	 * Recording, may be NULL: a poll that has been made, in a section, and that is not as the one before
	 * (verbs/idle_poll.h).  entered: the heap before the section.
	 */
	uint64_t (*polled)(struct sr_thread *t, uint64_t *a, void *site, int entered);
	/* The same: makes a poll that is as `idle` before, but not as the last call. */
	uint64_t (*polls_again)(struct sr_thread *t, uint64_t *a, struct sr_idle *idle);

	/* The engine answers calls from the trace and does not record them. */
	bool replays;
	/* The process's last record has not been written or reached yet. */
	bool active;

	/* Recording: writes a record that is not a call into the thread's stream. */
	void (*note)(struct sr_thread *t, uint16_t kind, const void *payload, size_t size);
	/*
	 * Recording: writes an event of the process's clock, with the orders that were found at
	 * it, and when (nicclock/clock.h), in the numbers of order.h; behind 0: with the call under way.
	 */
	void (*clock)(struct sr_clock_moment moment, const struct sr_order *orders, uint32_t n);

	/* The lowest of sreplay's descriptors that is at least fd, or -1. See own_fds.h. */
	int (*own_fd_from)(int fd);

	/*
	 * Called around each operation on the program's heap, in a process with threads;
	 * heap_end only if heap_begin returned true.
	 */
	bool (*heap_begin)(struct sr_thread *t);
	void (*heap_end)(struct sr_thread *t);

	/*
	 * A handler of the program is about to begin. False: it must not run, because the
	 * recording does not have it here.
	 */
	bool (*signal)(struct sr_thread *t, struct sr_signal_payload *signal);

	/* This thread is about to create another one. */
	void (*thread_starts)(void);
	/* This thread is about to run the program's code for the first time. */
	void (*thread_begins)(struct sr_thread *t);
	/* This thread has made its last call. */
	void (*thread_ends)(struct sr_thread *t);
	/*
	 * The thread leaves the program's code without a call, so that others may run; then it
	 * returns.
	 */
	void (*releases)(struct sr_thread *t);
	void (*resumes)(struct sr_thread *t);
	/*
	 * In a real call.  has_exposed: memory has become exposed, as a part of the call's entry, and the rest of the call
	 * follows.  regains: it is about to be exposed no more, or otherwise, as a part of the return.  Recording threads one at
	 * a time, what other threads access before and after that is then ordered with it.  Both may be NULL.
	 */
	void (*has_exposed)(struct sr_thread *t);
	void (*regains)(struct sr_thread *t, const struct sr_call_desc *d);
	/*
	 * The thread is about to access exposed memory, in the program's code; accesses: those since its
	 * last call.  Recording: others that wait run first.  Replay: as in the recording.  True: they
	 * have.  NULL: all threads run at the same time.
	 */
	bool (*yields)(struct sr_thread *t, uint64_t accesses, uintptr_t site);

	/*
	 * The program calls exit, which does not mean that this thread is the one that ends the
	 * process.  Not called when main returns.
	 */
	void (*exit_called)(struct sr_thread *t);
	/*
	 * The exit handlers have run; what stdio still has to write comes next, and then `exits`.
	 */
	void (*exit_begins)(int status);
	/* The process ends with this status. */
	void (*exits)(int status);

	/*
	 * The program is about to execute another one, in a section; `what` says which (image.h of
	 * shim/process).  Recording: writes it; true: *next is what the new image is to say of
	 * itself; false: it is not the recorded process that executes.  Replay: compares it, and
	 * returns only if the recorded exec failed.  NULL: execs are not recorded any more.
	 */
	bool (*executes)(struct sr_thread *t, struct sr_buf *what, void *site,
			 struct sr_image_origin *next);
	/*
	 * The program forks.  Recording: the number of the child if it is to be recorded; replay: if it
	 * is the one that is to be replayed.  0: it is neither.  continues: in the child, first of
	 * all, with this number.  Both may be NULL.
	 */
	uint32_t (*forks)(struct sr_thread *t);
	void (*continues)(struct sr_thread *t, uint32_t child);
	/* Recording, may be NULL: the program has started a process that is not recorded as a child of this one. */
	void (*starts_unrecorded)(void);
	/* Replay: the child has been made, and goes on in place of this process. */
	void (*leaves_to)(struct sr_thread *t, int32_t child);
	/* Replay, may be NULL: no child is made, but this process itself goes on as the child. */
	bool (*becomes_child)(void);
	/*
	 * Recording, may be NULL: the program is about to forbid the process what a recording needs.
	 * The recording ends, and from here on the shim makes no system call of its own.  why: what
	 * the program does.
	 */
	void (*leaves)(const char *why);

	/*
	 * May be NULL.  The program is about to use the heap, and signals wait, or are due according to the trace: their
	 * handlers run now.
	 */
	void (*handlers_at_heap)(struct sr_thread *t);

	/*
	 * May be NULL.  The thread passes a point at which the recording may have a call of the recorder's own, and, when it
	 * records, has none.  Recording: says so in front of what comes next in the program's code.  Replay: true if the recording
	 * has said so.
	 */
	bool (*passes)(struct sr_thread *t);

	/* Only an engine that replays has the following operations. */

	/*
	 * Is the thread's next record one of this call, with these arguments?  NULL: with any.  It takes places and handlers that
	 * come first for ones in front of this point.  So `passes` is asked first, unless another call follows at once.
	 */
	bool (*comes_next)(struct sr_thread *t, enum sr_call_number n, uint64_t *a);
	/* The same where the program makes no call: handlers and places before that record are still to come. */
	bool (*comes_at_once)(struct sr_thread *t, enum sr_call_number n, uint64_t *a);
	/*
	 * A fault that will become a call; signals are blocked. Is a handler to run before it? Then
	 * its signal has been sent, and the instruction must be executed again.
	 */
	bool (*handler_comes_first)(struct sr_thread *t);
	/* From now on the kernel may bring something there.  May be NULL. */
	void (*expects)(const void *addr, size_t length);
	/* The thread has computed for long without a call (sr_signals_await_stall). */
	void (*stalled)(struct sr_thread *t);
	/* A handler that ran at a place of the program's code has returned to it; signals are blocked. */
	void (*returned_to_place)(struct sr_thread *t);
	/*
	 * Ends the process, because something recorded cannot be done again; a message has said
	 * what.
	 */
	void (*fail)(void) __attribute__((noreturn));
};

/*
 * NULL while the shim is inert. Set before the program's main, or when a waiting process
 * opens a device.
 */
extern const struct sr_engine *sr_engine SR_HIDDEN;

/* Operations that do nothing. */
void sr_engine_no_note(struct sr_thread *t, uint16_t kind, const void *payload, size_t size);
void sr_engine_no_clock(struct sr_clock_moment moment, const struct sr_order *orders, uint32_t n);
int sr_engine_no_fd(int fd);
bool sr_engine_no_heap(struct sr_thread *t);
bool sr_engine_any_signal(struct sr_thread *t, struct sr_signal_payload *signal);
void sr_engine_ignore(struct sr_thread *t);
void sr_engine_ignore_start(void);

/* Is the process recorded or replayed, and not yet at its end? */
static inline bool sr_engine_is_active(void)
{
	return sr_engine && sr_engine->active;
}

/* These functions call the operations and work in an inert process, too. */

static inline bool sr_engine_passes(struct sr_thread *t)
{
	return sr_engine && sr_engine->passes && sr_engine->passes(t);
}

static inline void sr_engine_note(struct sr_thread *t, uint16_t kind, const void *payload,
				  size_t size)
{
	if (sr_engine)
		sr_engine->note(t, kind, payload, size);
}

static inline void sr_engine_clock(struct sr_clock_moment moment, const struct sr_order *orders, uint32_t n)
{
	if (sr_engine)
		sr_engine->clock(moment, orders, n);
}

static inline void sr_engine_releases(struct sr_thread *t)
{
	if (sr_engine)
		sr_engine->releases(t);
}

static inline void sr_engine_resumes(struct sr_thread *t)
{
	if (sr_engine)
		sr_engine->resumes(t);
}

static inline void sr_engine_has_exposed(struct sr_thread *t)
{
	if (sr_engine && sr_engine->has_exposed)
		sr_engine->has_exposed(t);
}

static inline void sr_engine_regains(struct sr_thread *t, const struct sr_call_desc *d)
{
	if (sr_engine && sr_engine->regains)
		sr_engine->regains(t, d);
}

static inline void sr_engine_exit_begins(int status)
{
	if (sr_engine)
		sr_engine->exit_begins(status);
}

static inline void sr_engine_exits(int status)
{
	if (sr_engine)
		sr_engine->exits(status);
}

/*
 * The process is inert, but will be recorded as soon as it opens a device, because it had
 * not loaded libibverbs when it started. Many such processes never load it (shells,
 * mpirun); Python and UCX programs load it with dlopen.
 */
extern bool sr_waiting;

/* Ends the waiting (start.c); true if the process is recorded from now on. */
bool sr_wake(void);

#endif
