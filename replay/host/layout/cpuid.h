/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cpuid.h: what the processor answers to ld.so in a traced process.
 *
 * Before any library's code runs, ld.so asks the processor which variant of functions such as
 * memcpy and sin to use.  Another variant rounds differently, and accesses exposed regions in other
 * pieces; and a place at which a signal came may be in a variant.  So the tracer answers from the
 * recorded table: at the trap where cpuid can be made to trap, and where it cannot, and this
 * processor is another one, at breakpoints instead of ld.so's instructions.
 *
 * x86-64 only.  One thread, the tracer, uses it.
 */
#ifndef REPLAY_HOST_LAYOUT_CPUID_H
#define REPLAY_HOST_LAYOUT_CPUID_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/processor.h"
#include "replay/host/layout/stopped.h"

#define SR_CPUID_SITES 128 /* glibc 2.36 has 37 */

struct sr_cpuid_tracer {
	const struct sr_stopped *s;
	const struct sr_processor *recorded; /* empty: nothing is answered */
	struct sr_processor here;
	uint64_t site[SR_CPUID_SITES]; /* addresses of ld.so's instructions, where breakpoints are */
	size_t n;
};

/*
 * traps: cpuid traps already.  Else puts the breakpoints into the image that begins at loader; 0: there is none.  Where
 * the code cannot be read, the processor answers itself.  s and recorded are kept.
 */
void sr_cpuid_trace(struct sr_cpuid_tracer *c, const struct sr_stopped *s, const struct sr_processor *recorded, bool traps,
		    uint64_t loader);

/* The process has stopped by this signal.  True: it was at a cpuid, and has been given its answer. */
bool sr_cpuid_answer(const struct sr_cpuid_tracer *c, int signo);

/* Takes the breakpoints away. */
void sr_cpuid_leave(struct sr_cpuid_tracer *c);

#endif
