/* SPDX-License-Identifier: BSD-2-Clause */
/* ending.h: the end of a recorded process. */
#ifndef SHIM_RECORD_ENDING_H
#define SHIM_RECORD_ENDING_H

#include <stdbool.h>

#include "logd/ring/client_state.h"

void sr_record_expect_end(void);

/* False in a child that runs in its parent's memory (clone). */
bool sr_record_is_process(void);

struct sr_thread;

/* A thread that calls exit when another one ends the process already waits a while for that. */
void sr_record_exit_called(struct sr_thread *t);

/* The exit handlers have run; the last writes of stdio follow. */
void sr_record_exit_begins(int status);

/* Ends the recording with this status: writes the last record and waits until all is on disk. */
void sr_record_exits(int status);

/* What the client does when threads wait for the daemon, and when it gives up. */
extern const struct sr_client_hooks sr_record_client_hooks;

/* The daemon has stopped a ring: says so, once for the process. */
void sr_record_ring_stopped(int error);

struct sr_engine;

/* The engine after the last record: calls are passed on. */
const struct sr_engine *sr_record_passing_engine(void);

#endif
