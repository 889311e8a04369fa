/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * heap_runs.h: several threads and one heap.
 *
 * Where a block lies depends on what all threads allocated and freed before, in
 * which order.  So in a process with threads each operation on the program's
 * heap is made under one lock, and all threads use one of glibc's arenas
 * (start.c); its caches per thread do no harm, being filled and emptied in that
 * same order.  Of the order only the changes are recorded: a thread that makes
 * an operation after another thread's takes the heap over, and a record in its
 * stream says where (SR_REC_HEAP).  In a replay it waits there until the other
 * has made as many as it had made.
 *
 * A thread that ends gives its cache back to the arena, inside glibc, when nothing
 * of the shim's can see it.  The next thread that takes the heap over waits until
 * it is gone.
 *
 * While there is one thread, none of this happens.
 */
#ifndef SHIM_THREADS_HEAP_RUNS_H
#define SHIM_THREADS_HEAP_RUNS_H

#include "shim/memory/heap_order.h"

/* The thread makes no more operations, but for what glibc does when it is over. */
void sr_heap_leave(struct sr_thread *t);

/* Has the thread that had the heap last left it, and may not be gone yet? */
bool sr_heap_is_left(void);

/* The thread that takes the heap over waits until it is. */
void sr_heap_wait_left(void);

#endif
