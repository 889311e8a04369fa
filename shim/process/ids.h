/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ids.h: the numbers of the process and its threads, of which a replay has others.
 *
 * The program knows the recorded ones, by getpid and gettid.  libc knows its threads by
 * the real ones, and names them to the kernel: pthread_setname_np opens
 * /proc/self/task/NUMBER/comm, pthread_setaffinity_np and clocks of threads have the number.
 * So arguments are compared as if these were recorded ones, and what goes to the
 * kernel has real ones.
 *
 * In a recording all of this changes nothing.  From any thread, in a signal handler too.
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

/* Of the thread with this number; 0: not known yet, or never. */
void sr_ids_recorded(uint32_t thread, int32_t id);
void sr_ids_real(uint32_t thread, int32_t id);

/* What an id of the process or a thread is in the other run; any other stays what it is. */
int32_t sr_recorded_id(int32_t id);
int32_t sr_real_id(int32_t id);

/* Of a clock of a process or a thread. */
int32_t sr_recorded_clock(int32_t clock);

/* Appends a path below /proc with the recorded numbers in it. */
void sr_put_proc_path(struct sr_buf *b, const char *path);

#endif
