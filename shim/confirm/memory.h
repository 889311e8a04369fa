/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.h: reads memory of the program that may not be there, or is exposed. */
#ifndef SHIM_CONFIRM_MEMORY_H
#define SHIM_CONFIRM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As the device has it.  False: it cannot be read. */
bool sr_confirm_read(void *to, uint64_t address, size_t n);

#endif
