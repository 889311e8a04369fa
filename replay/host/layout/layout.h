/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layout.h: lays out the memory of a new process as it was in the recorded one.
 *
 * Where the kernel puts the program, ld.so, the stack and the heap is random unless
 * personality(2) switches that off, which containers forbid; and where ld.so's mappings come
 * depends on the kernel.  Programs print addresses, send them to their peers, and order by them.
 * So the process is stopped at its first instruction (ptrace), and what the kernel has mapped is
 * moved to its recorded place (moves.h), with the stack's content (stack.h).  Then the tracer
 * follows ld.so, and chooses the addresses of its mappings, until the shim takes over (loader.h).
 *
 * The kernel's own mappings are removed, as in the recording (shim/kernel/vdso.h), except for a copy of the vDSO that ld.so
 * can read.
 *
 * x86-64 only, and not for a tool that starts the process itself (--exec).
 */
#ifndef REPLAY_HOST_LAYOUT_LAYOUT_H
#define REPLAY_HOST_LAYOUT_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "logd/base/processor.h"
#include "replay/host/layout/places.h"

/* Call in the child before it executes the program: stops until the parent has attached. */
void sr_layout_wait(void);

/* What the shim has to know of its start, set before the program runs (replay/abi/control.h). */
struct sr_layout_answer {
	_Atomic bool *traced;       /* the tracer waits for SIGSTOP */
	_Atomic bool *cpuid_traced; /* cpuid traps */
};

/*
 * Call in the parent.  Returns when the shim has taken over, or the process has ended.  Where ptrace is
 * forbidden, the process runs as the kernel has laid it out, after a message.
 */
void sr_layout_apply(pid_t child, const struct sr_layout *layout, const struct sr_processor *recorded,
		     const struct sr_layout_answer *answer);

#endif
