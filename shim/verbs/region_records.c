/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/region_records.h"

#include <string.h>

#include <sreplay/trace.h>

#include "logd/base/checksum.h"
#include "logd/base/page.h"
#include "logd/trace/left_out.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/sums.h"
#include "shim/core/thread.h"
#include "shim/memory/room.h"
#include "shim/verbs/by_value.h"
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

/*
 * A replay tries candidates for a value: of a part of a page another one before the right one in a tenth of all cases, more
 * where ranks answer each other at once.  A wrong one has two bytes in common with it in one of 65,536 cases, and then the
 * replay stops at the sums: one job of 20 did that had a thousand such values.
 */
#define CHECKSUM_BYTES 3

/*
 * A shorter value is recorded.  It may be what several peers make of a word at the same time, by atomics: of these the result is
 * known only when the peer has it, and a replay could look for it in vain (`fetches contended`: of 16 bytes and less, one in three).
 */
#define LEFT_OUT_MIN 32

/* Values of one page that lie so near to each other are left out as one. */
#define NEAR 128

/* Of so many pages are noted the last places of values that were left out. */
#define PAGES  1024
#define PLACES 8

/* The lock of the exposed regions guards them.  With --order only, so not a part of the library's image. */
static struct places {
	uint64_t page;
	uint32_t next;
	struct place {
		uint16_t from, length; /* in the page */
	} place[PLACES];
} *places;

/* NULL: no memory. */
/* The peer that wrote it writes it again: shim/replay/group/landed.c. */
static void put_left_out(struct sr_event_writer *w, const struct sr_exposed_value *v)
{
	uint64_t checksum = sr_checksum(v->data, v->length, 0);
	uint8_t l[8] = {0};
	const struct sr_exposed_value_head head = {.addr = v->addr | SR_LEFT_OUT, .length = SR_LEFT_OUT_BYTES(CHECKSUM_BYTES)};

	sr_sums_received(checksum);
	sr_left_out_put(l, v->length, checksum, CHECKSUM_BYTES);
	put(w, &head, sizeof(head));
	put(w, l, sizeof(l));
}

/* What did not come by requests of peers alone, no peer writes again.  (At deregistration the page is no longer exposed.) */
static bool is_worth_leaving_out(const struct sr_exposed_value *v)
{
	return v->length >= LEFT_OUT_MIN && !v->kept && !sr_is_by_value(v->addr, v->length);
}

static bool is_near(const struct sr_exposed_value *v, const struct sr_exposed_value *next)
{
	return next->addr - (v->addr + v->length) <= NEAR && (v->addr ^ next->addr) < PAGE;
}

/*
 * Joins the first value, which is worth leaving out, with others of that kind that are near to it: what is between them is
 * known, or found by this event, and the checksum covers it as well.  Returns how many values that are, with those in between.
 */
static uint32_t join_near(const struct sr_exposed_value *v, uint32_t n, struct sr_exposed_value *all)
{
	const char *known = sr_exposed_known((void *)v->addr);
	uint32_t joined = 1;

	*all = *v;
	for (uint32_t i = 1; known && i < n && is_near(&v[i - 1], &v[i]); i++) {
		if (!is_worth_leaving_out(&v[i]))
			continue;
		all->data = known;
		all->length = (uint32_t)(v[i].addr + v[i].length - v->addr);
		joined = i + 1;
	}
	return joined;
}

/* Was another one of its page there not long ago?  Then its place takes hardly a byte. */
static bool is_at_known_place(const struct sr_exposed_value *v)
{
	const struct place now = {(uint16_t)(v->addr % PAGE), (uint16_t)v->length};
	struct places *p;

	if (!places && !(places = sr_map_zeroed(PAGES * sizeof(*places))))
		return false;
	p = &places[v->addr / PAGE % PAGES];
	if (p->page != sr_page_down(v->addr))
		*p = (struct places){.page = sr_page_down(v->addr)};
	for (int i = 0; i < PLACES; i++)
		if (p->place[i].from == now.from && p->place[i].length == now.length)
			return true;
	p->place[p->next++ % PLACES] = now;
	return false;
}

/*
 * Joins all values of the page where it is known whole: then it is left out whole, and where its values are need not be
 * recorded.  Not beside other threads, which may store there.  0: it is not worth that, or not possible.
 */
static uint32_t join_page(const struct sr_exposed_value *v, uint32_t n, struct sr_exposed_value *all)
{
	const char *known = sr_exposed_known_page((void *)sr_page_down(v->addr));
	uint32_t joined = 1;

	if (!known || sr_threaded || sr_is_by_value(sr_page_down(v->addr), PAGE) || is_at_known_place(all))
		return 0;
	*all = (struct sr_exposed_value){.addr = sr_page_down(v->addr), .length = PAGE, .data = known};
	while (joined < n && sr_page_down(v[joined].addr) == all->addr)
		joined++;
	return joined;
}

static uint32_t join(const struct sr_exposed_value *v, uint32_t n, struct sr_exposed_value *all, bool by_load)
{
	uint32_t near = join_near(v, n, all), of_page = by_load ? join_page(v, n, all) : 0;

	return of_page ? of_page : near;
}

/* One behind the other: none of them is newer than one in front of it. */
static bool is_ascending(const struct sr_exposed_event *e)
{
	for (uint32_t i = 1; i < e->values_n; i++)
		if (e->values[i].addr < e->values[i - 1].addr + e->values[i - 1].length)
			return false;
	return true;
}

/*
 * Did a load find what only recorded peers can have written, by requests whose order is known?  Not from a page in flux.
 * Or was it found when a page stopped being passed through?  Then it is mostly what the program itself has stored there:
 * a replay has that, if no other thread stores beside this one.  So it is with what was found when a call began, as when
 * memory is deregistered.
 */
static bool is_written_again(const struct sr_exposed_event *e)
{
	const uint32_t shown = SR_EXPOSED_SNAPSHOT | SR_EXPOSED_FILLED | SR_EXPOSED_AFTER_TICK | SR_EXPOSED_FURTHER(~0u) << 16;
	const uint32_t passed = SR_EXPOSED_ASYNC | SR_EXPOSED_AT_CALL | SR_EXPOSED_AT_RETURN;
	uint32_t good = shown;

	if (!sr_leaves_out || !sr_clocks_only_members() || sr_record_all_values)
		return false;
	/* In what the program sends, pages are sampled that are passed through: it is what the program has stored there. */
	if (e->addr && !e->pc && sr_threaded)
		return false;
	if (e->flags & SR_EXPOSED_ASYNC && !sr_threaded)
		good |= passed;
	else if (e->flags & SR_EXPOSED_AT_CALL && !sr_threaded)
		good |= SR_EXPOSED_AT_CALL;
	return (e->addr || e->flags & (SR_EXPOSED_ASYNC | SR_EXPOSED_AT_CALL)) && !(e->flags & ~good);
}

static bool has_what_is_worth_it(const struct sr_exposed_event *e)
{
	for (uint32_t i = 0; i < e->values_n; i++)
		if (is_worth_leaving_out(&e->values[i]))
			return true;
	return false;
}

/*
 * A page that is copied while a request lands may have its first words, then old ones, then its last ones, which no replay tries:
 * the old ones are new by now.  It does try a beginning of the request.  What has landed since in a page that held still matters not.
 */
static bool holds_still(const struct sr_exposed_event *e)
{
	for (uint32_t i = 0; i < e->values_n; i++) {
		const struct sr_exposed_value *v = &e->values[i];
		void *page = (void *)sr_page_down(v->addr);
		const char *known = sr_exposed_known_page(page);

		if (v->still)
			continue;
		if (known ? memcmp(sr_exposed_backing(page), known, PAGE) : memcmp(sr_exposed_backing((void *)v->addr), v->data, v->length))
			return false;
	}
	return true;
}

static void put_value(struct sr_event_writer *w, const struct sr_exposed_value *v)
{
	const struct sr_exposed_value_head head = {.addr = v->addr, .length = v->length};
	static const char zeros[8];

	put(w, &head, sizeof(head));
	put(w, v->data, v->length);
	put(w, zeros, -v->length & 7);
}

/* Returns how many values that are, and of these how many are left out. */
static uint32_t put_in_order(struct sr_event_writer *w, const struct sr_exposed_event *e, uint32_t *left_out)
{
	for (uint32_t i = 0; i < e->values_n; i++) {
		bool leaves_out = is_worth_leaving_out(&e->values[i]);

		(leaves_out ? put_left_out : put_value)(w, &e->values[i]);
		*left_out += leaves_out;
	}
	return e->values_n;
}

/* What is recorded comes first, so that a replay knows it when it looks for the rest. */
static uint32_t put_what_is_not_again(struct sr_event_writer *w, const struct sr_exposed_event *e, uint32_t *left_out)
{
	uint32_t recorded = 0;

	if (!is_ascending(e))
		return put_in_order(w, e, left_out);
	for (uint32_t i = 0; i < e->values_n; i++) {
		if (is_worth_leaving_out(&e->values[i]))
			continue;
		put_value(w, &e->values[i]);
		recorded++;
	}
	for (uint32_t i = 0, joined; i < e->values_n; i += joined) {
		struct sr_exposed_value all;

		joined = 1;
		if (!is_worth_leaving_out(&e->values[i]))
			continue;
		joined = join(e->values + i, e->values_n - i, &all, e->addr);
		put_left_out(w, &all);
		++*left_out;
	}
	return recorded + *left_out;
}

static uint64_t site_of(const struct sr_exposed_event *e)
{
	if (e->flags & SR_EXPOSED_YIELD)
		return e->yields;
	return e->flags & SR_EXPOSED_AT_CALL ? e->ticks : e->pc;
}

void sr_record_exposed_event(struct sr_event_writer *w, const struct sr_exposed_event *e)
{
	const bool could = __builtin_expect(is_written_again(e), 0) && has_what_is_worth_it(e);
	const bool leaves_out = could && holds_still(e);
	const struct sr_exposed_payload head = {
	    .fault = (uint32_t)e->fault,
	    .flags = e->flags | (could && !leaves_out ? SR_EXPOSED_LANDING : 0),
	    .site = site_of(e),
	    /* A replay has to know at which load of a loop a tick was over. */
	    .addr = sr_leaves_out && !(e->flags & SR_EXPOSED_AFTER_TICK) ? sr_page_down(e->addr) : e->addr,
	    .protected_pages = e->protected_n,
	};
	uint32_t left_out = 0, n = 0;

	if (!w->buf && !(w->buf = sr_map_zeroed(RECORD_MAX)))
		return;
	w->n = 0;
	put(w, &head, sizeof(head));
	for (uint32_t i = 0; i < e->protected_n; i++)
		put(w, &(uint64_t){e->protected[i]}, sizeof(uint64_t));
	if (leaves_out)
		n = put_what_is_not_again(w, e, &left_out);
	else
		for (; n < e->values_n; n++)
			put_value(w, &e->values[n]);
	memcpy(w->buf + offsetof(struct sr_exposed_payload, values), &n, sizeof(n));
	sr_sums_count(n - left_out);
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
