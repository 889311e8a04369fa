/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * program_threads.h: the program's threads: their numbers, their stacks, how they begin and end.
 *
 * A thread gets its number when it is created, and the record of pthread_create contains that
 * number: so the thread has the same number, and the same stream, in the replay. The shim maps the
 * thread's stack, at an address that is recorded and never used again. So the pthread_t and what
 * the thread keeps on its stack are equal in both runs. (glibc would take stacks from mmap or
 * reuse those of ended threads, at a time that only the kernel decides.)
 *
 * Threads that the verbs libraries create for themselves are not the program's: all their calls
 * are nested.
 */
#ifndef SHIM_THREADS_PROGRAM_THREADS_H
#define SHIM_THREADS_PROGRAM_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <threads.h>

struct sr_thread;

typedef void *(*sr_start_routine)(void *);

/* Call once, in the main thread. False if the program has used up the thread keys. */
bool sr_threads_init(void);

/* Makes sure that the end of this thread is noticed. */
void sr_thread_watch_end(struct sr_thread *t);

/*
 * A thread that has ended makes a call. If it is the last one of the process, the call comes from
 * an exit handler, and the thread continues as a new thread with a stream of its own. Otherwise (a
 * destructor in the last round) this returns false, and the call is not recorded.
 */
bool sr_thread_revive(struct sr_thread *t);

#endif
