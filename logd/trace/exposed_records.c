/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/exposed_records.h"

#include <string.h>

#include "logd/base/page.h"
#include "logd/trace/left_out.h"

/* The piece at *at, if the record has it. */
static const void *take(const char *payload, size_t size, size_t *at, size_t n)
{
	const char *p = payload + *at;

	if (size - *at < n)
		return NULL;
	*at += n;
	return p;
}

/* A value lies within one page. */
static bool decode_left_out(struct sr_exposed_value *v, size_t size)
{
	struct sr_left_out l;

	if (!sr_left_out_get(&l, v->data, size))
		return false;
	v->addr &= ~SR_LEFT_OUT;
	v->data = NULL;
	v->length = l.length;
	v->checksum = l.checksum;
	v->mask = l.mask;
	return l.length && v->addr % PAGE + l.length <= PAGE;
}

static bool decode_value(struct sr_exposed_value *v, const void *payload, size_t size, size_t *at)
{
	struct sr_exposed_value_head head;
	const void *p = take(payload, size, at, sizeof(head));

	if (!p)
		return false;
	memcpy(&head, p, sizeof(head));
	*v = (struct sr_exposed_value){.addr = head.addr, .length = head.length};
	v->data = take(payload, size, at, head.length);
	if (!v->data || !take(payload, size, at, -head.length & 7))
		return false;
	if (head.addr & SR_LEFT_OUT)
		return decode_left_out(v, head.length);
	return true;
}

bool sr_exposed_records_decode(struct sr_exposed_records *w, const void *payload, size_t size)
{
	struct sr_exposed_payload head;
	size_t at = 0;
	const void *p = take(payload, size, &at, sizeof(head));

	if (!p)
		return false;
	memcpy(&head, p, sizeof(head));
	if (head.protected_pages > SR_EXPOSED_PROTECTED_MAX || head.values > SR_EXPOSED_VALUES_MAX)
		return false;
	p = take(payload, size, &at, head.protected_pages * sizeof(*w->protected));
	if (!p)
		return false;
	memcpy(w->protected, p, head.protected_pages * sizeof(*w->protected));
	for (uint32_t i = 0; i < head.values; i++)
		if (!decode_value(&w->values[i], payload, size, &at))
			return false;
	w->event = (struct sr_exposed_event){
	    .fault = head.fault,
	    .pc = head.flags & (SR_EXPOSED_YIELD | SR_EXPOSED_AT_CALL) ? 0 : head.site,
	    .yields = head.flags & SR_EXPOSED_YIELD ? head.site : 0,
	    .ticks = head.flags & SR_EXPOSED_AT_CALL ? head.site : 0,
	    .addr = head.addr,
	    .flags = head.flags,
	    .protected_n = head.protected_pages,
	    .protected = w->protected,
	    .values_n = head.values,
	    .values = w->values,
	};
	return true;
}
