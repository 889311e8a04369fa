/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layout.h: lays out the memory of a new process as the recorded kernel did.
 *
 * Where ld.so puts libraries depends on the size of the kernel's own mappings (vvar, vdso), and
 * the address of main's arguments on the length of the auxiliary vector.  Programs that print an
 * address, or send bytes of their stack that they never wrote, show that.  So the process is
 * stopped at its first instruction (ptrace).  The kernel's mappings are removed, as in the
 * recording (shim/kernel/vdso.h), except for a copy of the vDSO that ld.so can read; excess room
 * is filled; and the auxiliary vector is moved, with the recorded random bytes and the recorded
 * size of a signal frame, by which libraries size their stacks.
 *
 * x86-64 only, and not under a debugger, which stops the process itself.
 */
#ifndef REPLAY_HOST_START_LAYOUT_H
#define REPLAY_HOST_START_LAYOUT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "logd/base/processor.h"

struct sr_layout {
	uint64_t libraries_below; /* the first library ended there; 0: not known */
	uint64_t vdso;            /* where it was; 0: there was none, or it is not known */
	uint64_t stack;           /* with which the process started; 0: not known */
	uint8_t random[16];       /* AT_RANDOM's */
	uint64_t signal_frame;    /* AT_MINSIGSTKSZ, which depends on the processor; 0: not known */
};

/* Call in the child before it executes the program: stops until the parent has attached. */
void sr_layout_wait(void);

/*
 * Call in the parent.  Returns when the program is about to run, or has ended; if cpuid can be
 * made to trap (*cpuid_traced, set before the program runs), when the shim has taken over.
 */
void sr_layout_apply(pid_t child, const struct sr_layout *layout,
		     const struct sr_processor *recorded, _Atomic bool *cpuid_traced);

#endif
