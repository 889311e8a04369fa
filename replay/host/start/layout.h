/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layout.h: the memory of a new process as the recorded kernel laid it out.
 *
 * Where ld.so puts the libraries depends on the size of what the kernel maps
 * before them for itself (vvar, vdso), and where the arrays of main's arguments
 * lie on the length of the auxiliary vector.  A program that prints an address, or
 * sends what it never wrote to its stack, shows that.  So the process is stopped
 * at its first instruction (ptrace) and given the recorded places: the kernel's
 * mappings go, which the recording did without as well (shim/kernel/vdso.h), but for a copy of
 * the vDSO for ld.so to look at; what is too much room is filled, and the vector is moved and has the recorded random bytes
 * and the recorded size of a signal's frame, by which libraries size their stacks.
 *
 * x86-64 only, and not under a debugger, which does that stopping itself.
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

/* In the child, before it executes the program: stops until the parent is there. */
void sr_layout_wait(void);

/*
 * In its parent: returns when the program is about to run, or has ended; where cpuid can be
 * made to trap there (*cpuid_traced, before it runs) when the shim is there to answer.
 */
void sr_layout_apply(pid_t child, const struct sr_layout *layout,
		     const struct sr_processor *recorded, _Atomic bool *cpuid_traced);

#endif
