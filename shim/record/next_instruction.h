/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * next_instruction.h: what a thread that steps is about to execute.
 *
 * Of the program's own code: probes may have written over it.
 */
#ifndef SHIM_RECORD_NEXT_INSTRUCTION_H
#define SHIM_RECORD_NEXT_INSTRUCTION_H

#include <stdbool.h>
#include <stdint.h>

/* Does it show the flag that makes the thread step, change it, or lead into the kernel? */
bool next_is_delicate(uintptr_t pc);

/* Does it repeat, a step for each element of a string? */
bool next_is_string(uintptr_t pc);

bool next_is_pause(uintptr_t pc);

#endif
