/* SPDX-License-Identifier: BSD-2-Clause */
/* stacks.h: writes down from which callers calls and loads come, for `sreplay races`
 * (replay/abi/stacks.h). */
#ifndef SHIM_REPLAY_STACKS_H
#define SHIM_REPLAY_STACKS_H

#include <stdint.h>

#include "shim/core/thread.h"

/* Before the program runs: they go to this descriptor. */
void sr_stacks_start(int fd);

/* Any thread, in a call whose SN has been counted.  Of polls, and calls of libc, only the place is named. */
void sr_stacks_call(const struct sr_thread *t, const struct sr_call_desc *d, void *site);
/* Names the place of this code, without a stack. */
void sr_stacks_code(uint64_t pc);
/* In a fault's handler. */
void sr_stacks_load(const struct sr_thread *t, uint64_t fault, uint64_t pc);

#endif
