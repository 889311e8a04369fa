/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * images.h: finds the images whose code differs on another machine: the vDSO, which belongs
 * to the kernel, and the dynamic linker, which chooses libraries that suit the processor.
 * What they do for the program is not recorded.
 */
#ifndef SHIM_MEMORY_IMAGES_H
#define SHIM_MEMORY_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

/* Call once, before there are threads. */
void sr_images_find(void);

bool sr_is_vdso(const void *code);
bool sr_is_loader(const void *code);

#endif
