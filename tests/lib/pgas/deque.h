/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * deque.h: tasks that idle ranks steal; uts, nqueens and fib use it.
 *
 * Tasks are small structures of one size. A rank has a private stack, which nobody else
 * sees, and a shared part from which others take; both are filled and emptied in chunks.
 * Tasks may create tasks; pgas_run_tasks returns on all ranks when none is left anywhere.
 */
#ifndef PGAS_DEQUE_H
#define PGAS_DEQUE_H

#include "pgas.h"

/* The room of a deque in the shared heap. */
#define PGAS_DEQUE_BYTES 131072

struct pgas_deque;

/* Collective. `chunk` tasks move at once. */
struct pgas_deque *pgas_make_deque(size_t task_bytes, unsigned int chunk);

/* Copies the task. */
void pgas_push(struct pgas_deque *deque, const void *task);

/* Collective, once for a deque. `run` gets one task, and may push others. */
void pgas_run_tasks(struct pgas_deque *deque, void (*run)(struct pgas_deque *, const void *task));

#endif
