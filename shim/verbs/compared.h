/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * compared.h: memory that peers write but whose accesses cannot be made to fault.  The shim keeps
 * a copy of it, compares the two at each call, and records the differences there.
 */
#ifndef SHIM_VERBS_COMPARED_H
#define SHIM_VERBS_COMPARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/compiler.h"

struct sr_compared;

/* NULL: no memory. */
struct sr_compared *sr_compared_begin(char *addr, size_t length);
/* What a replay has there is not known: all of it is recorded when it is next compared. */
void sr_compared_all_anew(struct sr_compared *c);
void sr_compared_end(struct sr_compared *c);

/* The program unmaps the range, or maps something else over it. */
void sr_compared_forget(const char *addr, size_t length);

/* Is any memory compared? */
bool sr_compared_any(void) NO_VECTORS;

/*
 * where: SR_EXPOSED_AT_CALL or SR_EXPOSED_AT_RETURN.  stack: of what is registered on the main thread's
 * stack only the bytes from there on are compared, by that thread.  Below are the shim's own frames, which
 * a replay must not be given, and what no frame has any more.
 */
void sr_compared_all(uint32_t where, uintptr_t stack);

#endif
