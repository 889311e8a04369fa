/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order_code.h: orders as bytes, in a thread's stream of the trace.
 *
 * An event is written by its thread, as LEB128 numbers:
 *
 *   jump     how many events other threads of the process had since this thread's last one: its
 *            number is that one's + 1 + jump
 *   orders   to the end of the record, what was found at it: head = member * 4 + kind, and then
 *            the event, as the difference (zigzag) to the last one of that member in this stream
 *
 * In a process with one thread, an order up to 63 events newer than the last takes 3 bytes.
 *
 * The writer is used on the data path and allocates nothing.  The reader takes any bytes.  One
 * thread at a time for each stream.
 */
#ifndef NICCLOCK_ORDER_CODE_H
#define NICCLOCK_ORDER_CODE_H

#include <stdint.h>

#include "nicclock/clock.h"

/* A kind of entry besides those of enum sr_order_via: */
#define SR_ORDER_SHORT        2 /* without event: orders may be missing (sr_clock_is_short) */

#define SR_ORDER_ENTRY_BYTES  12
#define SR_ORDER_MAX_BYTES(n) (10 + (n)*SR_ORDER_ENTRY_BYTES)

/* What both sides remember of a stream; zeroed at its start. */
struct sr_order_stream {
	uint64_t event; /* the last of this thread */
	uint64_t found[SR_CLOCK_MEMBERS];
};

/*
 * Encodes an event of this thread with its n orders.  Returns how many bytes it put into `p`, which
 * has room for SR_ORDER_MAX_BYTES(n).  They must be written, in the order of the calls.
 */
uint32_t sr_order_encode(struct sr_order_stream *s, uint64_t event, const struct sr_order *orders,
			 uint32_t n, uint8_t *p);

/* Is it the next event, as nearly always?  Without orders it then takes one byte. */
static inline bool sr_order_is_next(const struct sr_order_stream *s, uint64_t event)
{
	return event == s->event + 1;
}

/*
 * Reading: first the event, which becomes s->event, then each entry.  Both return how many bytes
 * they took, 0 at the end, or -EBADMSG: no writer wrote this.  An entry of kind SR_ORDER_SHORT has
 * that as `via`, and no event.
 */
int sr_order_decode_event(struct sr_order_stream *s, const uint8_t *p, uint32_t size);
int sr_order_decode(struct sr_order_stream *s, const uint8_t *p, uint32_t size, struct sr_order *o);

#endif
