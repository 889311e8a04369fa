/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order_code.h: orders as bytes, in a thread's stream of the trace.
 *
 * What is written of an event, in the thread that has it:
 *
 *   jump     how many events other threads of the process had since this
 *            thread's last one: its number is the last one's + 1 + jump
 *   orders   what was found there, until the end of the record:
 *            head = member * 4 + kind, and then the event as the difference
 *            (zigzag) to the last one of that member in this stream
 *
 * all as LEB128.  A thread alone whose order is 63 events newer than the last
 * takes 3 bytes.
 *
 * The writer is used on the data path and allocates nothing.  The reader takes
 * any bytes.
 */
#ifndef NICCLOCK_ORDER_CODE_H
#define NICCLOCK_ORDER_CODE_H

#include <stdint.h>

#include "nicclock/clock.h"

/* The kinds of an entry: those of enum sr_order_via, and: */
#define SR_ORDER_SHORT        2 /* no event: a READ missed some cells, orders may be missing */

#define SR_ORDER_ENTRY_BYTES  12
#define SR_ORDER_MAX_BYTES(n) (10 + (n)*SR_ORDER_ENTRY_BYTES)

/* What both sides remember of a stream; zeroed at its start. */
struct sr_order_stream {
	uint64_t event; /* the last of this thread */
	uint64_t found[SR_CLOCK_MEMBERS];
};

/*
 * Encodes event `event` of this thread with its orders.  Returns the bytes put
 * into `p`, which has room for SR_ORDER_MAX_BYTES(n).  From then on the stream
 * has it: what is encoded is written, in the order of the calls.
 */
uint32_t sr_order_encode(struct sr_order_stream *s, uint64_t event, const struct sr_order *orders,
			 uint32_t n, uint8_t *p);

/* Is it the one that follows, as nearly always?  Without orders it takes one byte then. */
static inline bool sr_order_is_next(const struct sr_order_stream *s, uint64_t event)
{
	return event == s->event + 1;
}

/*
 * Reading: first the event, which becomes s->event, then each entry.  They
 * return the bytes taken, 0 at the end and -EBADMSG for what no writer wrote.
 * An entry of kind SR_ORDER_SHORT has `via` so and no event.
 */
int sr_order_decode_event(struct sr_order_stream *s, const uint8_t *p, uint32_t size);
int sr_order_decode(struct sr_order_stream *s, const uint8_t *p, uint32_t size, struct sr_order *o);

#endif
