/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vdso.h: a vDSO without the kernel's time pages.
 *
 * ld.so allocates memory for what it knows about the vDSO, and dl_iterate_phdr reports it, so a
 * replayed process has one where the recorded process had it (layout.h).  Its functions make
 * system calls instead of reading the time.
 */
#ifndef REPLAY_HOST_LAYOUT_VDSO_H
#define REPLAY_HOST_LAYOUT_VDSO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* False: the image is not understood. */
bool sr_vdso_use_system_calls(uint8_t *image, size_t size);

#endif
