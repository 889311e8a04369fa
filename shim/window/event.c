/* SPDX-License-Identifier: BSD-2-Clause */
/* event.c: what one fault brings is gathered, and handed over as one. */
#include "shim/window/page.h"

/* Values are copied: what they point at may be overwritten within the same fault. */
#define VALUES_MAX 1024
#define BYTES_MAX  (OPEN_MAX * PAGE)

static struct sr_window_value values[VALUES_MAX];
static uintptr_t closed[OPEN_MAX];
static char bytes[BYTES_MAX];
static size_t bytes_n;
static struct sr_window_event event;

void event_begin(uint64_t fault, uint32_t flags)
{
	event = (struct sr_window_event){
	    .fault = fault, .flags = flags, .values = values, .closed = closed};
	bytes_n = 0;
}

static void hand_over(void)
{
	if (hooks.event && (event.values_n || event.closed_n || event.flags & SR_WINDOW_ALONE))
		hooks.event(&event);
}

void event_value(uintptr_t addr, const void *data, uint32_t length, uint32_t flags)
{
	struct page *p = page_at(addr);

	if (p->async)
		flags |= SR_WINDOW_ASYNC;
	p->async = false;
	if (flags & SR_WINDOW_ASYNC)
		counts.async_values++;
	if (event.values_n == VALUES_MAX || bytes_n + length > BYTES_MAX) {
		hand_over();
		event.values_n = event.closed_n = 0;
		bytes_n = 0;
	}
	memcpy(bytes + bytes_n, data, length);
	values[event.values_n++] =
	    (struct sr_window_value){.addr = addr, .length = length, .data = bytes + bytes_n};
	bytes_n += length;
	event.flags |= flags;
}

void event_closed(uintptr_t view)
{
	if (event.closed_n < OPEN_MAX)
		closed[event.closed_n++] = view;
}

void event_flag(uint32_t flag)
{
	event.flags |= flag;
}

void event_end(void)
{
	hand_over();
	event.values_n = event.closed_n = 0;
}

/* ----------------------------------------------------------------- replay */

static uintptr_t to_close[OPEN_MAX];
static uint32_t to_close_n, flagged;

void replay_values(uint64_t fault, uint32_t flags)
{
	struct sr_window_event e;

	to_close_n = 0;
	flagged = 0;
	while (hooks.recorded && hooks.recorded(fault, flags, &e)) {
		for (uint32_t i = 0; i < e.values_n; i++) {
			const struct sr_window_value *v = &e.values[i];

			memcpy(landing_of(page_at(v->addr), v->addr), v->data, v->length);
		}
		flagged |= e.flags;
		for (uint32_t i = 0; i < e.closed_n && to_close_n < OPEN_MAX; i++)
			to_close[to_close_n++] = e.closed[i];
	}
}

bool replay_flagged(uint32_t flag)
{
	return hooks.recorded && flagged & flag;
}

void replay_closed(void)
{
	for (uint32_t i = 0; i < to_close_n; i++)
		if (page_at(to_close[i])->state == PAGE_FROZEN)
			page_close(to_close[i]);
	to_close_n = 0;
}
