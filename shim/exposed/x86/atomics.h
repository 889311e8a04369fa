/* SPDX-License-Identifier: BSD-2-Clause */
/* atomics.h: the instructions by which threads decide among themselves: those with a lock prefix, and exchanges with memory. */
#ifndef SHIM_EXPOSED_X86_ATOMICS_H
#define SHIM_EXPOSED_X86_ATOMICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes at the end of the code that are not looked at, unless they are the rest of an instruction. */
#define ATOMICS_TAIL 15

/* Is one of these instructions atomic?  What lies between functions is skipped as far as it is no instruction. */
bool code_has_atomics(const uint8_t *code, size_t n);

#endif
