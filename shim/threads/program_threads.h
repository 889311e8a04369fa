/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * program_threads.h: the program's threads: their numbers, stacks, beginnings and ends.
 *
 * A thread gets its number when it is created, and the record of pthread_create has it: so the
 * thread has the same number, and the same stream, in the replay.  Its stack is mapped by the
 * shim, at an address that is recorded and never used again.  So pthread_t, and what the thread
 * keeps on its stack, is equal in both runs.  (glibc would take stacks from mmap, or from those
 * of threads that have ended, at a time that only the kernel decides.)
 *
 * Threads that the verbs libraries create for themselves are not the program's: all calls that
 * they make are nested.
 */
#ifndef SHIM_THREADS_PROGRAM_THREADS_H
#define SHIM_THREADS_PROGRAM_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <threads.h>

struct sr_thread;

typedef void *(*sr_start_routine)(void *);

/* In the main thread, once.  False if the program has used up the thread keys. */
bool sr_threads_init(void);

/* Asks for a notice when this thread ends. */
void sr_thread_watch_end(struct sr_thread *t);

/*
 * A thread that has ended makes a call.  If it is the last one of the process, the call comes
 * from an exit handler, and the thread goes on as one more thread, with a stream of its own.  If
 * not (a destructor in the last round of all), false: the call is not recorded.
 */
bool sr_thread_revive(struct sr_thread *t);

#endif
