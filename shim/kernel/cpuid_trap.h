/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cpuid_trap.h: a replayed program that asks its processor what it is is told what the recorded
 * one was.
 *
 * arch_prctl(ARCH_SET_CPUID) makes the instruction a fault, where the processor can
 * (Intel's since Ivy Bridge, some of AMD's; hypervisors pass it on or do not); the handler
 * answers from the recorded table (processor.h).  A recording leaves the instruction alone.
 *
 * The mode is the thread's and goes over to those that it creates; an execve ends it.
 */
#ifndef SHIM_KERNEL_CPUID_TRAP_H
#define SHIM_KERNEL_CPUID_TRAP_H

#include <stdbool.h>

struct sr_processor;

/*
 * In the calling thread, and those that it creates; after sr_signals_start().  traced: who
 * started this process has it trap already, and answers until it stops (SIGSTOP) here.
 * True: the program is told.
 */
bool sr_cpuid_begin(const struct sr_processor *recorded, bool traced);

/* This thread is a library's, or the process is a child that is not replayed. */
void sr_cpuid_leave_alone(void);

#endif
