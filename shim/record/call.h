/* SPDX-License-Identifier: BSD-2-Clause */
/* call.h: makes an outermost call of the program and records it. */
#ifndef SHIM_RECORD_CALL_H
#define SHIM_RECORD_CALL_H

#include "shim/core/call.h"

struct sr_thread;

uint64_t sr_record_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);

/* The same in a process whose threads run one at a time. */
uint64_t sr_record_serial_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);

#endif
