/* SPDX-License-Identifier: BSD-2-Clause */
/* own_image.h: where this library lies. */
#ifndef SHIM_CORE_OWN_IMAGE_H
#define SHIM_CORE_OWN_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/compiler.h"

/* From the linker. */
extern const char __ehdr_start[] SR_HIDDEN;
extern const char etext[] SR_HIDDEN;
extern const char _end[] SR_HIDDEN;

/* From the beginning of the image to the end of its code. */
static inline size_t sr_own_code_bytes(void)
{
	return (size_t)(etext - __ehdr_start);
}

static inline bool sr_is_own_code(uintptr_t pc)
{
	return pc - (uintptr_t)__ehdr_start < sr_own_code_bytes();
}

/* ... or data. */
static inline bool sr_is_own(uintptr_t address)
{
	return address - (uintptr_t)__ehdr_start < (uintptr_t)(_end - __ehdr_start);
}

#endif
