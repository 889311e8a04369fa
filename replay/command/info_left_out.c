/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/info_left_out.h"

#include <stdio.h>

#include "logd/trace/exposed_records.h"
#include "replay/analysis/log/decode.h"
#include "replay/analysis/log/wire.h"

typedef unsigned long long ull;

static void add_messages(struct sr_left_out_sum *sum, struct sr_log_polled *p)
{
	struct sr_wire_segment s;
	uint32_t length;

	for (size_t i = 0; i < p->segments_n && !p->segments.bad; i++) {
		sr_get_segment_fields(&p->segments, &s);
		if (p->segments.bad || !sr_log_is_left_out(s.addr, s.data.p, s.data.n, &length))
			continue;
		sum->messages++;
		sum->message_bytes += length;
	}
}

static void add_values(struct sr_left_out_sum *sum, const struct sr_exposed_event *e)
{
	for (uint32_t i = 0; i < e->values_n; i++) {
		if (e->values[i].data)
			continue;
		sum->values++;
		sum->value_bytes += e->values[i].length;
	}
}

void sr_left_out_add(struct sr_left_out_sum *sum, const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	static struct sr_exposed_records records;
	struct sr_log_polled polled;

	if (sr_log_get_polled_of(kinds, e, &polled))
		add_messages(sum, &polled);
	if (e->kind == SR_REC_EXPOSED && sr_exposed_records_decode(&records, e->payload, e->size))
		add_values(sum, &records.event);
}

void sr_left_out_print(const struct sr_left_out_sum *sum)
{
	printf("  left out (--order): %llu pieces of messages (%llu bytes) and %llu values of exposed memory (%llu bytes) that "
	       "other recorded ranks sent; all ranks are replayed together; sreplay replay --record-ranks makes a "
	       "detailed trace\n",
	       (ull)sum->messages, (ull)sum->message_bytes, (ull)sum->values, (ull)sum->value_bytes);
}

json_t *sr_left_out_json(const struct sr_left_out_sum *sum)
{
	return json_pack("{s:I, s:I, s:I, s:I}", "messages", (json_int_t)sum->messages, "message_bytes",
			 (json_int_t)sum->message_bytes, "values", (json_int_t)sum->values, "value_bytes",
			 (json_int_t)sum->value_bytes);
}
