/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cpuid_trap.h: a replayed program that executes cpuid gets the answers of the recorded processor.
 *
 * arch_prctl(ARCH_SET_CPUID) makes the instruction fault, if the processor supports that (Intel's
 * since Ivy Bridge, some of AMD's; a hypervisor may hide it). The handler answers from the
 * recorded table (processor.h), or executes the instruction where this processor is the same one.
 * The number of the CPU is the recorded one, unless the program has put the thread on one CPU.
 * A recording leaves the instruction alone.
 *
 * The mode belongs to the thread. Threads that it creates inherit the mode; an execve ends it.
 */
#ifndef SHIM_KERNEL_CPUID_TRAP_H
#define SHIM_KERNEL_CPUID_TRAP_H

#include <stdbool.h>

struct sr_processor;

/*
 * Starts the trap in the calling thread and in those that it creates; call after
 * sr_signals_start(). traced: the replay command traces this process and answers until the
 * process stops here (SIGSTOP). True if the program gets the recorded answers.
 */
bool sr_cpuid_begin(const struct sr_processor *recorded, bool traced);

/* Ends the trap: this thread is a library's, or the process is a child that is not replayed. */
void sr_cpuid_leave_alone(void);

#endif
