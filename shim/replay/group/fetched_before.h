/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fetched_before.h: a program may READ the same memory again and again and find the same bytes, gigabytes of them: its samples
 * have these once.
 */
#ifndef SHIM_REPLAY_GROUP_FETCHED_BEFORE_H
#define SHIM_REPLAY_GROUP_FETCHED_BEFORE_H

#include <stdint.h>

#include "replay/abi/group.h"

/*
 * Where the samples have the bytes that the last sample of this memory found, if these are the same; 0: they are others, and
 * have to be noted, next.  The caller lets in one thread.
 */
uint64_t sr_fetched_before(const struct sr_group_sample *l, const uint8_t *bytes);
void sr_fetched_note(const struct sr_group_sample *l, uint64_t bytes_at);

#endif
