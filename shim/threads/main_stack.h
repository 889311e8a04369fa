/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * main_stack.h: where the frame of the program's main lies.
 *
 * Between the strings at the top of the stack, which are the same in a replay, and main's frame
 * the kernel puts its auxiliary vector.  Another kernel's is shorter or longer, and would move
 * every local variable.  So a recording starts main a little lower than it had to, and a replay
 * starts it at the same place, on any kernel.
 */
#ifndef SHIM_THREADS_MAIN_STACK_H
#define SHIM_THREADS_MAIN_STACK_H

#include <stdint.h>

/* Recording: the place that is chosen for this process. */
uintptr_t sr_main_stack_choose(void);

/* Before main is called: it is to start there; 0 leaves it where it is. */
void sr_main_stack_pin(uintptr_t place);

/* The stack pointer with which the kernel started the process. */
uintptr_t sr_main_stack_start(void);

#endif
