/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap_runs.h: several threads and one heap.
 *
 * Where a block lies depends on the order in which all threads allocated and freed before.  So
 * in a process with threads, each operation on the program's heap is made under one lock, and
 * all threads use one of glibc's arenas (start.c); its caches per thread are filled and emptied
 * in that same order.  Only changes of the order are recorded: a thread that makes an operation
 * after another thread's begins a run, and a record in its stream says where (SR_REC_HEAP).  In
 * a replay it waits there until the other thread has made as many operations as it had.
 *
 * When a thread ends, glibc returns its cache to the arena, where the shim cannot see it.  The
 * next thread that begins a run waits until that thread is gone.
 *
 * While there is one thread, none of this happens.
 */
#ifndef SHIM_THREADS_HEAP_RUNS_H
#define SHIM_THREADS_HEAP_RUNS_H

#include "shim/memory/heap_order.h"

/* The thread makes no more operations, except what glibc does when it is gone. */
void sr_heap_leave(struct sr_thread *t);

/* Has the thread that had the heap last left it, and may not be gone yet? */
bool sr_heap_is_left(void);

/* The thread that takes the heap over waits until it is. */
void sr_heap_wait_left(void);

#endif
