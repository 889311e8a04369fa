/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.h: threads that watch the backing mapping without the lock. */
#ifndef SHIM_EXPOSED_PAGE_WAIT_H
#define SHIM_EXPOSED_PAGE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"

/*
 * With the lock held: releases it, watches the word until it is not `known` any more, or for so many pauses, and takes the
 * lock again.  True if it has changed.
 */
bool wait_for_change(const char *at, unsigned int size, uint64_t known, uint32_t pauses) NO_VECTORS;

/* Before a backing mapping is unmapped: ends all waits, and returns when no thread looks at one any more. */
void end_waits(void);

#endif
