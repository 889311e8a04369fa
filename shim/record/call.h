/* SPDX-License-Identifier: BSD-2-Clause */
/* call.h: an outermost call of the program's is made, and recorded. */
#ifndef SHIM_RECORD_CALL_H
#define SHIM_RECORD_CALL_H

#include "shim/core/call.h"

struct sr_thread;

uint64_t sr_record_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);

/* The same in a process whose threads take turns. */
uint64_t sr_record_serial_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);

#endif
