/* SPDX-License-Identifier: BSD-2-Clause */
/* call.h: makes an outermost call of the program and records it. */
#ifndef SHIM_RECORD_CALL_H
#define SHIM_RECORD_CALL_H

#include "shim/core/call.h"

struct sr_made_poll;
struct sr_thread;

uint64_t sr_record_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);

/* The same for a call that polls, mostly in vain. */
uint64_t sr_record_poll(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site,
			const struct sr_made_poll *made);

/* The same in a process whose threads run one at a time. */
uint64_t sr_record_serial_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);
uint64_t sr_record_serial_poll(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site,
			       const struct sr_made_poll *made);

#endif
