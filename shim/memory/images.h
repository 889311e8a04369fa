/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * images.h: code that is not the same in a replay on another machine: the kernel's
 * in the vDSO, and the dynamic linker's, which looks for libraries as the processor
 * is.  What they do for the program is its own affair in both runs.
 */
#ifndef SHIM_MEMORY_IMAGES_H
#define SHIM_MEMORY_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

/* Once, before threads. */
void sr_images_find(void);

bool sr_is_vdso(const void *code);
bool sr_is_loader(const void *code);

#endif
