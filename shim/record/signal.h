/* SPDX-License-Identifier: BSD-2-Clause */
/* signal.h: records that a handler of the program begins. An operation of the engine. */
#ifndef SHIM_RECORD_SIGNAL_H
#define SHIM_RECORD_SIGNAL_H

#include <stdbool.h>

struct sr_signal_payload;
struct sr_thread;

bool sr_record_signal(struct sr_thread *t, struct sr_signal_payload *p);

/* The same in the thread that ends the process, when no other is recorded any more. */
bool sr_record_signal_alone(struct sr_thread *t, struct sr_signal_payload *p);

/* sr_engine's handlers_at_heap: those that wait run, if a replay has begun this thread when it comes there. */
void sr_record_handlers_at_heap(struct sr_thread *t);

#endif
