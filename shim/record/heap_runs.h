/* SPDX-License-Identifier: BSD-2-Clause */
/* heap_runs.h: records in which order threads use the heap. Operations of the engine. */
#ifndef SHIM_RECORD_HEAP_RUNS_H
#define SHIM_RECORD_HEAP_RUNS_H

#include <stdbool.h>

struct sr_thread;

bool sr_record_heap_begin(struct sr_thread *t);
void sr_record_heap_end(struct sr_thread *t);

/* In a forked child: no other thread is there that holds the lock. */
void sr_record_heap_free(void);

#endif
