/* SPDX-License-Identifier: BSD-2-Clause */
/* call.h: makes an outermost call of the program and records it. */
#ifndef SHIM_RECORD_CALL_H
#define SHIM_RECORD_CALL_H

#include "shim/core/call.h"

struct sr_idle;
struct sr_thread;

/* The same as if the process had one thread only: for the one that ends the process. */
uint64_t sr_record_call_alone(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);
uint64_t sr_record_polled(struct sr_thread *t, uint64_t *a, void *site, int entered);
uint64_t sr_record_polls_again(struct sr_thread *t, uint64_t *a, struct sr_idle *idle);
uint64_t sr_record_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);

/* The same in a process whose threads run one at a time. */
uint64_t sr_record_serial_call(struct sr_thread *t, enum sr_call_number n, uint64_t *a, void *site);

#endif
