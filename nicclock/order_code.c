/* SPDX-License-Identifier: BSD-2-Clause */
#include "nicclock/order_code.h"

#include <errno.h>

static uint8_t *put_number(uint8_t *p, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*p++ = (uint8_t)(value | 0x80);
	*p++ = (uint8_t)value;
	return p;
}

static int get_number(const uint8_t *p, uint32_t size, uint64_t *value)
{
	uint64_t v = 0;

	for (uint32_t i = 0; i < size && i < 10; i++) {
		v |= (uint64_t)(p[i] & 0x7f) << 7 * i;
		if (p[i] & 0x80)
			continue;
		if (i == 9 && p[i] > 1)
			break;
		*value = v;
		return (int)i + 1;
	}
	return -EBADMSG;
}

/* Small differences of either sign become small numbers. */
static uint64_t zigzag(uint64_t difference)
{
	return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

static uint64_t unzigzag(uint64_t code)
{
	return code >> 1 ^ -(code & 1);
}

uint32_t sr_order_encode(struct sr_order_stream *s, uint64_t event, const struct sr_order *orders,
			 uint32_t n, uint8_t *p)
{
	uint8_t *begin = p;

	p = put_number(p, event - s->event - 1);
	s->event = event;
	for (uint32_t i = 0; i < n; i++) {
		const struct sr_order *o = &orders[i];

		p = put_number(p, o->member * 4u + o->via);
		if (o->via == SR_ORDER_SHORT)
			continue;
		p = put_number(p, zigzag(o->event - s->found[o->member]));
		s->found[o->member] = o->event;
	}
	return (uint32_t)(p - begin);
}

int sr_order_decode_event(struct sr_order_stream *s, const uint8_t *p, uint32_t size)
{
	uint64_t jump;
	int n = get_number(p, size, &jump);

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
	n = get_number(p, size, &head);
	if (n < 0)
		return n;
	if (head >= SR_CLOCK_MEMBERS * 4 || head % 4 > SR_ORDER_SHORT)
		return -EBADMSG;
	*o = (struct sr_order){.member = (uint8_t)(head / 4), .via = (uint8_t)(head % 4)};
	if (o->via == SR_ORDER_SHORT)
		return n;
	m = get_number(p + n, size - (uint32_t)n, &difference);
	if (m < 0)
		return m;
	s->found[o->member] += unzigzag(difference);
	o->event = s->found[o->member];
	return n + m;
}
