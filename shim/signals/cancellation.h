/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cancellation.h: the program's threads that may be cancelled at any instruction (PTHREAD_CANCEL_ASYNCHRONOUS).
 *
 * libc would end such a thread in the recorder's code as well, and nothing would say where.  So libc does not learn of that
 * type: who cancels such a thread sends it a signal instead.  Its handler, cancel_here(), ends the thread; it is recorded, and
 * runs where handlers of the program run: so the trace says where, and a replay ends the thread there.
 */
#ifndef SHIM_SIGNALS_CANCELLATION_H
#define SHIM_SIGNALS_CANCELLATION_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <ucontext.h>

struct sr_thread;

/* SIGSETXID of glibc, which no program can send; nor can it block it.  glibc has it sent by tgkill, the shim by queueing. */
#define SR_SIGNAL_CANCELS 33

/* From now on the thread is, or is not, such a one. */
void sr_cancellation_set(struct sr_thread *t, bool anywhere);

/* True: it is such a thread, and has the signal. */
bool sr_cancellation_send(pthread_t id);

/* Replay: the handler of that signal runs next. */
void sr_cancellation_prepare(void);

/* Is the signal glibc's?  Then its handler has run. */
bool sr_cancellation_is_libcs(int signo, siginfo_t *info, ucontext_t *uc);

/* The thread is ending: nothing cancels it any more. */
void sr_cancellation_ends(struct sr_thread *t);

/* For a forked child: the parent's other threads are not there. */
void sr_cancellation_in_child(void);

/* For one that is not recorded: from now on libc knows all. */
void sr_cancellation_forget(void);

#endif
