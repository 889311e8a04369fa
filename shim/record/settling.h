/* SPDX-License-Identifier: BSD-2-Clause */
/* settling.h: what the other threads have written is recorded before this one ends them. */
#ifndef SHIM_RECORD_SETTLING_H
#define SHIM_RECORD_SETTLING_H

#include <stdbool.h>
#include <stdint.h>

struct sr_thread;

/*
 * Returns the event of the process's end or exec; 0 if the process has no threads.  Other threads'
 * writes are complete by then, with earlier events, or have not begun and wait (last_outputs.h).
 * stdio: the same holds for what they print, and from here on they cannot.
 */
uint64_t sr_record_settle(struct sr_thread *t, bool stdio);

#endif
