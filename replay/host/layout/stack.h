/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack.h: what the kernel puts on the stack of a new process (System V ABI for x86-64, section 3.4.1): the
 * argument count, the vectors of arguments, environment and auxiliary values, and strings above them.
 */
#ifndef REPLAY_HOST_LAYOUT_STACK_H
#define REPLAY_HOST_LAYOUT_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/host/layout/places.h"
#include "replay/host/layout/moves.h"
#include "replay/host/layout/stopped.h"

struct sr_stack {
	uint64_t *words;
	size_t n;      /* of words read: more than those of the vectors */
	size_t vector; /* the index of the auxiliary vector */
};

/* False: it is not understood. */
bool sr_stack_read(struct sr_stack *stack, const struct sr_stopped *s);
void sr_stack_free(struct sr_stack *stack);

/* A value of the auxiliary vector; 0: it is not there. */
uint64_t sr_stack_value(const struct sr_stack *stack, uint64_t type);

/* The page boundary above the strings; 0: it is not known. */
uint64_t sr_stack_top(const struct sr_stack *stack, const struct sr_stopped *s);

/*
 * Writes it as it was in the recorded process: at its address, with the recorded random bytes, and
 * with pointers into what has been moved.  has_vdso: a vDSO is at its recorded place.
 */
bool sr_stack_place(struct sr_stack *stack, struct sr_stopped *s, const struct sr_layout *l, const struct sr_moves *by,
		    bool has_vdso);

/* Tells the kernel where things are now: brk(2), and what /proc shows.  After sr_stack_place(). */
bool sr_stack_tell_kernel(const struct sr_stack *stack, const struct sr_stopped *s, const struct sr_layout *l,
			  const struct sr_moves *by);

#endif
