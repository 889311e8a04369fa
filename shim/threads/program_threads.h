/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * program_threads.h: the program's threads: their numbers, stacks, beginnings and ends.
 *
 * A thread is numbered when it is created, and its number is in the record of
 * pthread_create: so it has the same one, and the same stream, in the replay.
 * Its stack is the shim's too, at an address that is recorded and never used
 * again.  That makes pthread_t, and what the thread keeps on its stack, equal in
 * both runs; glibc's own stacks come from mmap or from a cache of those of ended
 * threads, which are back in it when the kernel is done with them: sometime.
 *
 * Threads that the verbs libraries create for themselves are not the program's:
 * all that they call is nested.
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

/* The end of this thread is to be noticed. */
void sr_thread_watch_end(struct sr_thread *t);

/*
 * A thread that has ended makes a call.  If it is the process's last one, these
 * are exit handlers, and it goes on as one more thread, with a stream of its own.
 * If not (a destructor in the last round of all), false: it is not recorded.
 */
bool sr_thread_revive(struct sr_thread *t);

#endif
