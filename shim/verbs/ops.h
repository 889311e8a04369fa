/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ops.h: operation pointers in the program's verbs objects (queue pairs,
 * completion queues, device memory): which there are, and wrappers in their
 * place.  Those of contexts, which may lack a part, are in context.c.
 *
 * All functions are thread-safe.
 */
#ifndef SHIM_VERBS_OPS_H
#define SHIM_VERBS_OPS_H

#include <stdint.h>

#include "shim/core/call.h"

/*
 * Recording: saves the object and puts wrappers where it has operations; once,
 * however often it is called.  Without memory for it the object stays as it is.
 */
void sr_ops_patch(void *object, enum sr_source source);

/* The object as it was before, or NULL. */
void *sr_ops_saved(const void *object);

/* Around a destroy: taken out before it, then freed (sr_free), or put back if it failed. */
void *sr_ops_take(const void *object);
void sr_ops_put_back(const void *object, void *saved);

/* Bit n of a set stands for the n-th call of that source in sr_calls. */
uint64_t sr_ops_present(const void *object, enum sr_source source);
void sr_ops_install(void *object, enum sr_source source, uint64_t set);

#endif
