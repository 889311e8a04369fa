/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ids.h: the numbers of the process and its threads, which differ in a replay.
 *
 * The program sees the recorded numbers, by getpid and gettid.  libc knows its threads by the
 * real ones and passes these to the kernel: pthread_setname_np opens
 * /proc/self/task/NUMBER/comm, and pthread_setaffinity_np and the clocks of threads contain
 * the number.  So arguments are compared as if they had the recorded numbers, and the kernel
 * gets the real ones.
 *
 * A recording changes nothing.  Any thread, and signal handlers.
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

/* The recorded and the real number of a thread; 0: unknown so far. */
void sr_ids_recorded(uint32_t thread, int32_t id);
void sr_ids_real(uint32_t thread, int32_t id);

/* The id of the process or a thread in the other run; any other id stays what it is. */
int32_t sr_recorded_id(int32_t id);
int32_t sr_real_id(int32_t id);

/* The same for the clock of a process or a thread. */
int32_t sr_recorded_clock(int32_t clock);

/* Appends a path below /proc with the recorded numbers in it. */
void sr_put_proc_path(struct sr_buf *b, const char *path);

#endif
