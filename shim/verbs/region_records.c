/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/region_records.h"

#include <string.h>
#include <sys/mman.h>

#include <sreplay/trace.h>

#include "logd/base/checksum.h"
#include "logd/base/rawsys.h"
#include "logd/trace/left_out.h"
#include "shim/core/engine.h"
#include "shim/core/sums.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/objects.h"

bool sr_record_all_values;

/* The largest event: see shim/exposed/page/event.c. */
#define RECORD_MAX (2ul << 20)

static void put(struct sr_event_writer *w, const void *p, size_t n)
{
	memcpy(w->buf + w->n, p, n);
	w->n += n;
}

/* Of up to 4,096 candidates of a value, a wrong one has them in one of a million cases; the sums find it. */
#define CHECKSUM_BYTES 4

/* A shorter value is recorded: it takes hardly more than its checksum. */
#define LEFT_OUT_MIN 32

/* The peer that wrote it writes it again: shim/replay/group/landed.c. */
static void put_left_out(struct sr_event_writer *w, const struct sr_exposed_value *v)
{
	uint64_t checksum = sr_checksum(v->data, v->length, 0);
	uint8_t l[SR_LEFT_OUT_BYTES(CHECKSUM_BYTES)];
	const struct sr_exposed_value_head head = {.addr = v->addr | SR_LEFT_OUT, .length = sizeof(l)};

	_Static_assert(sizeof(l) % 8 == 0, "no zeros follow");
	sr_sums_received(checksum);
	sr_left_out_put(l, v->length, checksum, CHECKSUM_BYTES);
	put(w, &head, sizeof(head));
	put(w, l, sizeof(l));
}

/* What did not come by requests of peers alone, no peer writes again. */
static bool is_worth_leaving_out(const struct sr_exposed_value *v)
{
	return v->length >= LEFT_OUT_MIN && !sr_exposed_keeps_values((void *)(uintptr_t)v->addr);
}

/*
 * Did a load find what only recorded peers can have written, by requests whose order is known?  Not if it may have
 * come at another time than the load, or from a page in flux.
 */
static bool is_written_again(const struct sr_exposed_event *e)
{
	const uint32_t shown = SR_EXPOSED_SNAPSHOT | SR_EXPOSED_FURTHER(~0u) << 16;

	return sr_leaves_out && e->addr && !(e->flags & ~shown) && sr_clocks_only_members() && !sr_record_all_values;
}

static void put_value(struct sr_event_writer *w, const struct sr_exposed_value *v)
{
	const struct sr_exposed_value_head head = {.addr = v->addr, .length = v->length};
	static const char zeros[8];

	put(w, &head, sizeof(head));
	put(w, v->data, v->length);
	put(w, zeros, -v->length & 7);
}

void sr_record_exposed_event(struct sr_event_writer *w, const struct sr_exposed_event *e)
{
	const struct sr_exposed_payload head = {
	    .fault = (uint32_t)e->fault,
	    .flags = e->flags,
	    .site = e->flags & SR_EXPOSED_YIELD ? e->yields : e->pc,
	    .addr = e->addr,
	    .protected_pages = e->protected_n,
	    .values = e->values_n,
	};

	const bool again = is_written_again(e);
	uint32_t left_out = 0;

	if (!w->buf) {
		void *p = sr_sys_mmap(sr_heap_place_mapping(RECORD_MAX), RECORD_MAX,
				      PROT_READ | PROT_WRITE,
				      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (sr_sys_is_error(p))
			return;
		w->buf = p;
	}
	w->n = 0;
	put(w, &head, sizeof(head));
	for (uint32_t i = 0; i < e->protected_n; i++)
		put(w, &(uint64_t){e->protected[i]}, sizeof(uint64_t));
	for (uint32_t i = 0; i < e->values_n; i++) {
		bool leaves_out = __builtin_expect(again, 0) && is_worth_leaving_out(&e->values[i]);

		(leaves_out ? put_left_out : put_value)(w, &e->values[i]);
		left_out += leaves_out;
	}
	sr_sums_count(e->values_n - left_out);
	sr_engine_note(&sr_self, SR_REC_EXPOSED, w->buf, w->n);
}

void sr_record_region(uint32_t what, const struct sr_exposed_region *w, uint32_t why)
{
	const struct sr_region_payload payload = {
	    .addr = (uintptr_t)w->addr,
	    .length = w->length,
	    .what = what,
	    .refusal = why,
	};

	sr_engine_note(&sr_self, SR_REC_REGION, &payload, sizeof(payload));
}
