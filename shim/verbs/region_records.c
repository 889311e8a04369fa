/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/region_records.h"

#include <string.h>
#include <sys/mman.h>

#include <sreplay/trace.h>

#include "logd/base/rawsys.h"
#include "shim/core/engine.h"
#include "shim/core/thread.h"
#include "shim/memory/heap.h"

/* The largest event: see shim/exposed/page/event.c. */
#define RECORD_MAX (2ul << 20)

static void put(struct sr_event_writer *w, const void *p, size_t n)
{
	memcpy(w->buf + w->n, p, n);
	w->n += n;
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
	for (uint32_t i = 0; i < e->values_n; i++)
		put_value(w, &e->values[i]);
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
