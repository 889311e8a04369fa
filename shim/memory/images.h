/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * images.h: code that differs in a replay on another machine: the kernel's, in the vDSO, and
 * the dynamic linker's, which looks for libraries that suit the processor.  What they do for
 * the program is not recorded.
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
