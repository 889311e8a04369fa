/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack.h: who called whom, from an address in the program's code on.
 *
 * A stack is named by a hash of its return addresses, each as the library that it is in and the
 * distance from where that begins: so it has the same name in each run of a program, wherever
 * libraries are.  Any thread, in a section or in a fault's handler; allocates nothing and takes no
 * lock.
 */
#ifndef SHIM_CORE_STACK_H
#define SHIM_CORE_STACK_H

#include <stdbool.h>
#include <stdint.h>

#define SR_STACK_FRAMES 24

struct sr_stack {
	uint64_t hash; /* 0: there is none */
	uint32_t n;
	uint64_t
	    frames[SR_STACK_FRAMES]; /* the first: where the call returns to, or the instruction */
	const uint64_t *slots[SR_STACK_FRAMES]; /* where each frame but the first is on the stack;
						   NULL: not known */
};

/* An address in code, named like that. */
uint64_t sr_stack_place(uint64_t address);
/* The library that this address is in: where it lies, and its path, which is "" for the program.  NULL: none. */
const char *sr_stack_library(uint64_t address, uint64_t *begin, uint64_t *end);
/* Where the code is that has this name, if it was at `recorded` in another run; place 0: not known, so there.  0: nowhere.
 * No other thread may load libraries meanwhile. */
uint64_t sr_stack_find(uint64_t place, uint64_t recorded);

/* Is it still the thread's stack, if the first frame is where it was?  Much faster than to take it
 * again. */
static inline bool sr_stack_is_same(const struct sr_stack *s)
{
	for (uint32_t i = 1; i < s->n; i++)
		if (!s->slots[i] || *s->slots[i] != s->frames[i])
			return false;
	return s->n > 1;
}

/* The address above the thread's outermost frame that an unwinder finds: where its stack ends, if it is a coroutine's, too. */
uintptr_t sr_stack_end(void);

/* from: the first frame; what lies above it is the shim's.  If it is not on the stack, there is
 * none. */
void sr_stack_take(struct sr_stack *s, uint64_t from);

#endif
