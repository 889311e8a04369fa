/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ops.h: finds the operation pointers in the program's verbs objects (queue pairs, completion
 * queues, device memory) and replaces them by wrappers.  context.c does this for contexts,
 * which may lack a part.
 *
 * All functions are thread-safe.
 */
#ifndef SHIM_VERBS_OPS_H
#define SHIM_VERBS_OPS_H

#include <stdint.h>

#include "shim/core/call.h"

/*
 * Recording: saves the object and replaces its operations by wrappers.  Repeated calls do
 * nothing.  If there is no memory, the object stays as it is.
 */
void sr_ops_patch(void *object, enum sr_source source);

/* The saved copy of the object, or NULL. */
void *sr_ops_saved(const void *object);

/* Around a destroy: take it out before; then sr_free it, or put it back if that failed. */
void *sr_ops_take(const void *object);
void sr_ops_put_back(const void *object, void *saved);

/* Bit n of a set stands for the n-th call of that source in sr_calls. */
uint64_t sr_ops_present(const void *object, enum sr_source source);
void sr_ops_install(void *object, enum sr_source source, uint64_t set);

#endif
