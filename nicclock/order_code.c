/* SPDX-License-Identifier: BSD-2-Clause */
#include "nicclock/order_code.h"

#include <errno.h>

#include "logd/base/leb128.h"

uint32_t sr_order_encode(struct sr_order_stream *s, uint64_t event, const struct sr_order *orders,
			 uint32_t n, uint8_t *p)
{
	uint8_t *begin = p;

	p = sr_leb128_put(p, event - s->event - 1);
	s->event = event;
	for (uint32_t i = 0; i < n; i++) {
		const struct sr_order *o = &orders[i];

		p = sr_leb128_put(p, o->member * 4u + o->via);
		if (o->via == SR_ORDER_SHORT)
			continue;
		p = sr_leb128_put(p, sr_zigzag(o->event - s->found[o->member]));
		s->found[o->member] = o->event;
	}
	return (uint32_t)(p - begin);
}

int sr_order_decode_event(struct sr_order_stream *s, const uint8_t *p, uint32_t size)
{
	uint64_t jump;
	int n = sr_leb128_get(p, size, &jump);

	if (n > 0)
		s->event += 1 + jump;
	return n;
}

int sr_order_decode(struct sr_order_stream *s, const uint8_t *p, uint32_t size, struct sr_order *o)
{
	uint64_t head, difference;
	int n, m;

	if (!size)
		return 0;
	n = sr_leb128_get(p, size, &head);
	if (n < 0)
		return n;
	if (head >= SR_CLOCK_MEMBERS * 4 || head % 4 > SR_ORDER_SHORT)
		return -EBADMSG;
	*o = (struct sr_order){.member = (uint8_t)(head / 4), .via = (uint8_t)(head % 4)};
	if (o->via == SR_ORDER_SHORT)
		return n;
	m = sr_leb128_get(p + n, size - (uint32_t)n, &difference);
	if (m < 0)
		return m;
	s->found[o->member] += sr_unzigzag(difference);
	o->event = s->found[o->member];
	return n + m;
}
