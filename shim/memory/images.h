/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * images.h: finds the images whose code differs on another machine: the vDSO, which belongs
 * to the kernel, and the dynamic linker, which chooses libraries that suit the processor.
 * What they do for the program is not recorded.  With them the unwinder, which works on the
 * list of the libraries that are loaded: a replay has fewer.
 */
#ifndef SHIM_MEMORY_IMAGES_H
#define SHIM_MEMORY_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

/* Call before there are threads, and before anything hides the vDSO. */
void sr_images_find(void);

/* NULL: the process has none. */
const void *sr_images_vdso(void);

bool sr_is_vdso(const void *code);
bool sr_is_loader(const void *code);
/* Where its code is.  False: the process has no dynamic linker.  Also before sr_images_find(). */
bool sr_loader_code(const uint8_t **begin, const uint8_t **end);

/* In libc, its variables included: locks of its own are among them. */
bool sr_is_libc(const void *place);

/* libgcc's, which comes with the first thread that ends, if the program is not linked with it.  Safe in a handler. */
bool sr_is_unwinder(const void *code);

#endif
