/* SPDX-License-Identifier: BSD-2-Clause */
#include "nicclock/clock.h"

#include <assert.h>

#define TORN_TRIES 1000

void sr_clock_region_use_cell(struct sr_clock_region *region, uint32_t cell)
{
	uint64_t cells = atomic_load_explicit(&region->cells, memory_order_relaxed);

	while (cells <= cell &&
	       !atomic_compare_exchange_weak_explicit(&region->cells, &cells, cell + 1ull,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

void sr_clock_init(struct sr_clock *c, struct sr_clock_region *region, int member)
{
	assert(member >= 0 && member < SR_CLOCK_MEMBERS);
	*c = (struct sr_clock){.region = region, .member = member};
	atomic_store_explicit(&region->own, sr_clock_own_word(member, 0), memory_order_relaxed);
}

uint64_t sr_clock_now(const struct sr_clock *c)
{
	return sr_clock_event(atomic_load_explicit(&c->region->own, memory_order_relaxed));
}

/*
 * The counter is the word that others read: two threads' events could not be
 * published in their order otherwise.  Release: who reads the number by RDMA or
 * finds it in another thread is not to miss what came before it.  What the CPU
 * stores afterwards is ordered behind it as well, for which x86's locked
 * instructions suffice; elsewhere the second half of acq_rel is needed.
 */
uint64_t sr_clock_tick(struct sr_clock *c)
{
	uint64_t word = atomic_load_explicit(&c->region->own, memory_order_relaxed), event;

	do
		event = sr_clock_event(word) + 1;
	while (!atomic_compare_exchange_weak_explicit(
	    &c->region->own, &word, sr_clock_own_word(c->member, event), memory_order_acq_rel,
	    memory_order_relaxed));
	return event;
}

/* ------------------------------------------------------------ finding orders */

static bool is_anothers(const struct sr_clock *c, uint64_t word)
{
	return sr_clock_is_word(word) && sr_clock_member(word) != c->member;
}

/*
 * Another's own number tells how far it came and nothing else: only a higher one
 * than was known is worth noting.  It may be known from elsewhere.
 */
static bool is_new_own(const struct sr_clock *c, const struct sr_clock_view *v, uint64_t word)
{
	return word != atomic_load_explicit(&v->own, memory_order_acquire) &&
	       is_anothers(c, word) &&
	       sr_clock_event(word) >
		   atomic_load_explicit(&c->known[sr_clock_member(word)], memory_order_acquire);
}

/*
 * A cell is worth noting even if a higher number of that member is known: it
 * tells what has landed.
 */
static bool is_new_cell(const struct sr_clock *c, const struct sr_clock_view *v, uint32_t i,
			uint64_t word)
{
	return word != atomic_load_explicit(&v->seen[i], memory_order_acquire) &&
	       is_anothers(c, word);
}

static uint64_t load(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

/*
 * One that is torn is being written, which is soon done: but in what a READ
 * brought, where it stays so.
 */
static uint64_t load_again(const _Atomic uint64_t *word, uint64_t value)
{
	for (int i = 0; i < TORN_TRIES && sr_clock_is_torn(value); i++)
		value = load(word);
	return value;
}

/* What nearly every look finds: nothing else than was seen last, or one's own words. */
static bool may_be_new(const struct sr_clock *c, const _Atomic uint64_t *seen, uint64_t word)
{
	return word != atomic_load_explicit(seen, memory_order_acquire) &&
	       sr_clock_member(word) != c->member;
}

static uint64_t load_whole(const struct sr_clock *c, const _Atomic uint64_t *word,
			   const _Atomic uint64_t *seen)
{
	uint64_t value = load(word);

	return may_be_new(c, seen, value) ? load_again(word, value) : 0;
}

static uint32_t room_for(const struct sr_clock_view *v, uint32_t cells)
{
	return cells < v->cells ? cells : v->cells;
}

bool sr_clock_is_news(const struct sr_clock *c, const struct sr_clock_view *v,
		      const _Atomic uint64_t *words, uint32_t cells)
{
	uint32_t n = room_for(v, cells);

	/* The data was read first: that is what makes its clock visible. */
	atomic_thread_fence(memory_order_acquire);
	if (is_new_own(c, v, load_whole(c, &words[0], &v->own)))
		return true;
	for (uint32_t i = 0; i < n; i++)
		if (is_new_cell(c, v, i,
				load_whole(c, &words[SR_CLOCK_HEAD_WORDS + i], &v->seen[i])))
			return true;
	return false;
}

bool sr_clock_is_short(const _Atomic uint64_t *words, uint32_t cells)
{
	if (load(&words[1]) > cells || sr_clock_is_torn(load(&words[0])))
		return true;
	for (uint32_t i = 0; i < cells; i++)
		if (sr_clock_is_torn(load(&words[SR_CLOCK_HEAD_WORDS + i])))
			return true;
	return false;
}

static struct sr_order order_of(uint64_t word)
{
	return (struct sr_order){
	    .event = sr_clock_event(word),
	    .member = (uint8_t)sr_clock_member(word),
	    .via = sr_clock_is_own(word) ? SR_ORDER_OWN : SR_ORDER_CELL,
	};
}

static uint64_t word_of(const struct sr_order *o)
{
	return o->via == SR_ORDER_OWN ? sr_clock_own_word(o->member, o->event)
				      : sr_clock_cell_word(o->member, o->event);
}

static void raise_known(struct sr_clock *c, const struct sr_order *o)
{
	_Atomic uint64_t *known = &c->known[o->member];
	uint64_t event = load(known);

	while (event < o->event &&
	       !atomic_compare_exchange_weak_explicit(known, &event, o->event, memory_order_release,
						      memory_order_relaxed))
		;
}

uint32_t sr_clock_merge(struct sr_clock *c, struct sr_clock_view *v, const _Atomic uint64_t *words,
			uint32_t cells, struct sr_order *orders, uint32_t room, uint64_t *event)
{
	uint32_t at[SR_CLOCK_ORDERS], n = 0, limit = room_for(v, cells);
	uint64_t own = load_whole(c, &words[0], &v->own);
	bool new_own;

	assert(room > 0 && room <= SR_CLOCK_ORDERS);
	atomic_thread_fence(memory_order_acquire);
	new_own = is_new_own(c, v, own);
	if (new_own)
		orders[n++] = order_of(own);
	for (uint32_t i = 0; i < limit && n < room; i++) {
		uint64_t word = load_whole(c, &words[SR_CLOCK_HEAD_WORDS + i], &v->seen[i]);

		if (!is_new_cell(c, v, i, word))
			continue;
		at[n] = i;
		orders[n++] = order_of(word);
	}
	if (!n)
		return 0;
	/*
	 * Numbered before it is published: a thread that finds a word noted
	 * already goes on, and its next event must come after this one.
	 */
	*event = sr_clock_tick(c);
	for (uint32_t i = 0; i < n; i++) {
		raise_known(c, &orders[i]);
		if (i == 0 && new_own)
			atomic_store_explicit(&v->own, own, memory_order_release);
		else
			atomic_store_explicit(&v->seen[at[i]], word_of(&orders[i]),
					      memory_order_release);
	}
	return n;
}
