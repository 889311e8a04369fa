/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * counter.h: jumps in place of instructions that read the time-stamp counter.
 *
 * shim/kernel/tsc_sites.c finds these instructions and has replaced the first byte of each by hlt, which faults.  Those
 * that fault often become probes.  Such a probe has a stub of its own kind: it keeps registers on the program's stack, below
 * what a function may use without moving its stack pointer, and goes through no page table.
 */
#ifndef SHIM_EXPOSED_PROBE_COUNTER_H
#define SHIM_EXPOSED_PROBE_COUNTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the instruction at pc reads. */
struct counter_read {
	uintptr_t pc;
	bool with_aux; /* rdtscp */
	bool is_done;  /* `serve` has to do what else was left to do */
	uint32_t aux;
	uint64_t value;
};

struct counter_handlers {
	/*
	 * The end of a stack on which the others run.  What they leave differs between a recording and a replay, and places are told
	 * by what is on the program's stack.  There are 56 bytes above it: rbx, rbp, r12 to r15 of the program come there, and
	 * where its stack ends (struct sr_caller).  NULL: they run on the program's stack.  In general registers only.
	 */
	void *(*stack)(void);
	/* Reads it.  False: serve() is to be called.  In general registers only (NO_VECTORS). */
	bool (*fast)(struct counter_read *r);
	void (*serve)(struct counter_read *r);
};

/* Once.  False: the processor is not suited. */
bool counter_probes_start(const struct counter_handlers *h);

/*
 * Writes the jump over the instruction at pc, of this length, whose first byte is hlt.  text: n bytes of the code from
 * `begin` on, which is executed only, with the original bytes.  The lock is held.  False: there is no jump, and never
 * will be.
 */
bool counter_probe(uintptr_t pc, unsigned int length, const uint8_t *text, uintptr_t begin, size_t n);

/* Is this the stub of a probe?  Its code is the shim's. */
bool counter_is_stub(uintptr_t at);

#endif
