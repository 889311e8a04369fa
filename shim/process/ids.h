/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ids.h: the ids of the process and its threads, which differ in a replay.
 *
 * getpid and gettid return the recorded ids to the program. libc knows its threads by the real ids
 * and passes these to the kernel: pthread_setname_np opens /proc/self/task/ID/comm, and the
 * arguments of pthread_setaffinity_np and of the clocks of threads contain the id. So arguments
 * are compared as if they had the recorded ids, and the kernel gets the real ones.
 *
 * A recording changes nothing. Any thread may call these functions, and so may signal handlers.
 */
#ifndef SHIM_PROCESS_IDS_H
#define SHIM_PROCESS_IDS_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "shim/core/codec.h"

/* This is a replay. */
extern bool sr_ids_differ SR_HIDDEN;

void sr_ids_start(int32_t recorded_pid);

/* Sets the recorded or the real id of a thread; 0: not known yet. */
void sr_ids_recorded(uint32_t thread, int32_t id);
void sr_ids_real(uint32_t thread, int32_t id);

/* The id of the process or thread in the other run; any other id is returned unchanged. */
int32_t sr_recorded_id(int32_t id);
int32_t sr_real_id(int32_t id);

/* The same for the clock of a process or a thread. */
int32_t sr_recorded_clock(int32_t clock);

/* What was put last is a text of n bytes: a path below /proc gets the recorded numbers. */
void sr_put_recorded_ids(struct sr_buf *b, size_t n);

#endif
