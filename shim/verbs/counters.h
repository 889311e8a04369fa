/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * counters.h: memory of other processes that this one changes by atomics, again and again (record --order).
 *
 * Others do so as well, at any time: a replay of all ranks does not know how far each had come when a READ found the memory, and
 * the orders in which they may have come are too many to be tried.  Where each has had one
 * compare-swap or two, as where ranks claim slots of a table, they are few.  Any thread; it may say so of other memory.
 */
#ifndef SHIM_VERBS_COUNTERS_H
#define SHIM_VERBS_COUNTERS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

/* An atomic on the word at this address of a member's memory is about to be posted. */
void sr_counters_add(int member, uint64_t addr, enum ibv_wr_opcode opcode);
/* Have there been others than a few compare-swaps on one of these words? */
bool sr_counters_touch(int member, uint64_t addr, uint32_t length);

#endif
