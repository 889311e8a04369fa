/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap_runs.h: several threads and one heap.
 *
 * The address of a block depends on the order in which all threads allocated and freed before. So
 * in a process with threads, one lock serialises all operations on the program's heap, and all
 * threads use one of glibc's arenas (start.c), whose per-thread caches are filled and emptied in
 * that same order. Only changes of the thread are recorded: a thread whose operation follows
 * another thread's begins a run, and a record in its stream says where (SR_REC_HEAP). In a replay
 * it waits there until the other thread has made as many operations as in the recording.
 *
 * When a thread ends, glibc returns its cache to the arena, which the shim cannot see. So the next
 * thread that begins a run waits until the ended thread is gone.
 *
 * In a process with one thread, none of this happens.
 */
#ifndef SHIM_THREADS_HEAP_RUNS_H
#define SHIM_THREADS_HEAP_RUNS_H

#include "shim/memory/heap_order.h"

/* Call when the thread has made its last operation; only glibc's release of its cache follows. */
void sr_heap_leave(struct sr_thread *t);

/* Has the last user of the heap left it, and may that thread still exist? */
bool sr_heap_is_left(void);

/* Waits until that thread is gone. The thread that takes the heap over calls this. */
void sr_heap_wait_left(void);

#endif
