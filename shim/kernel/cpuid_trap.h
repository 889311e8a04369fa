/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cpuid_trap.h: a replayed program that executes cpuid gets the answers of the recorded processor.
 *
 * arch_prctl(ARCH_SET_CPUID) makes the instruction fault, if the processor supports that (Intel's
 * since Ivy Bridge, some of AMD's; a hypervisor may hide it). Elsewhere those in the program's code
 * are found and replaced (untrapped.h), and the command that traces the process answers the dynamic
 * linker's, which come before (replay/host/layout/cpuid.h). The handler answers from the recorded table (processor.h), or executes the instruction
 * where this processor is the same one. The number of the CPU is the one where the recording began,
 * or of the CPU that the thread was put on (hwloc, and so MPI, visits each in turn). A recording
 * leaves the instruction alone.
 *
 * The mode belongs to the thread. Threads that it creates inherit the mode; an execve ends it.
 */
#ifndef SHIM_KERNEL_CPUID_TRAP_H
#define SHIM_KERNEL_CPUID_TRAP_H

#include <stdbool.h>
#include <ucontext.h>

struct sr_processor;
struct sr_tsc_site;

/*
 * Starts the trap in the calling thread and in those that it creates; call after
 * sr_signals_start(). traced: the replay command traces this process and answers until the
 * process stops here (SIGSTOP). True if all that the program asks is answered as recorded.
 */
bool sr_cpuid_begin(const struct sr_processor *recorded, bool traced);

/* Are the instructions to be replaced, as this processor cannot trap them? */
bool sr_cpuid_is_sought(void);
/* What the instruction at this site does. */
void sr_cpuid_site(const struct sr_tsc_site *site, ucontext_t *uc);

/* Ends the trap: this thread is a library's, or the process is a child that is not replayed. */
void sr_cpuid_leave_alone(void);

#endif
