/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * main_stack.h: where the frame of the program's main lies.
 *
 * The kernel puts its auxiliary vector between the strings at the top of the stack, which
 * are the same in a replay, and main's frame. Another kernel's vector may be shorter or
 * longer, which would move every local variable. So a recording starts main slightly lower
 * than necessary, and a replay starts it at the same address on any kernel.
 */
#ifndef SHIM_THREADS_MAIN_STACK_H
#define SHIM_THREADS_MAIN_STACK_H

#include <stdbool.h>
#include <stdint.h>

/* Recording: chooses the address for this process. */
uintptr_t sr_main_stack_choose(void);

/* Call before main: main then starts at this address. With 0 it is not moved. */
void sr_main_stack_pin(uintptr_t place);

/* At the start: the main thread's calls may clear so much of its stack (stack_below.h). */
void sr_main_stack_know(void);

/* The stack pointer with which the kernel started the process. */
uintptr_t sr_main_stack_start(void);

/* Is the address one of the main thread's stack? */
bool sr_is_on_main_stack(uintptr_t addr);

#endif
