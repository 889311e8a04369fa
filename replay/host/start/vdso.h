/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * vdso.h: a vDSO to look at.
 *
 * ld.so allocates what it knows of the vDSO as it does for a library, and dl_iterate_phdr names
 * it, so a replayed process has one where the recorded process had it (layout.h).  It is a copy
 * without the pages that the kernel keeps the time in: its functions make system calls.
 */
#ifndef REPLAY_HOST_START_VDSO_H
#define REPLAY_HOST_START_VDSO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* false: this image is none that we understand. */
bool sr_vdso_use_system_calls(uint8_t *image, size_t size);

#endif
