/* SPDX-License-Identifier: BSD-2-Clause */
#include "nicclock/clock.h"

#include <assert.h>

#define TORN_TRIES 1000

void sr_clock_region_use_cell(struct sr_clock_region *region, uint32_t cell)
{
	uint64_t cells = atomic_load_explicit(&region->cells, memory_order_relaxed);

	while ((cells & SR_CLOCK_CELLS_MASK) <= cell &&
	       !atomic_compare_exchange_weak_explicit(&region->cells, &cells,
						      (cells & ~SR_CLOCK_CELLS_MASK) | (cell + 1ull),
						      memory_order_relaxed, memory_order_relaxed))
		;
}

void sr_clock_init(struct sr_clock *c, struct sr_clock_region *region, int member,
		   const _Atomic uint64_t *drawn)
{
	assert(member >= 0 && member < SR_CLOCK_MEMBERS);
	*c = (struct sr_clock){.region = region, .member = member, .drawn = drawn};
	atomic_store_explicit(&region->own, sr_clock_own_word(member, 0), memory_order_relaxed);
}

uint64_t sr_clock_now(const struct sr_clock *c)
{
	return sr_clock_event(atomic_load_explicit(&c->region->own, memory_order_relaxed));
}

/*
 * The counter is the word that others read, since otherwise two threads could not publish their
 * events in order.  Release: a process or thread that reads the number sees what came before
 * it.  Acquire orders later stores of this CPU behind it, where locked instructions alone (x86) do
 * not.
 */
uint64_t sr_clock_tick(struct sr_clock *c)
{
	uint64_t word = atomic_load_explicit(&c->region->own, memory_order_relaxed), event;

	do {
		event = sr_clock_event(word) + 1;
		/* Ordered in front of the exchange, which releases. */
		atomic_store_explicit(&c->region->before, word, memory_order_relaxed);
	} while (!atomic_compare_exchange_weak_explicit(
	    &c->region->own, &word, sr_clock_own_word(c->member, event), memory_order_acq_rel,
	    memory_order_relaxed));
	return event;
}

/* ------------------------------------------------------------ finding orders */

static bool is_anothers(const struct sr_clock *c, uint64_t word, uint64_t behind)
{
	return sr_clock_is_word(word, behind) && sr_clock_member(word) != c->member;
}

/*
 * Another member's own word shows how far that had come, and nothing else: it is new only if it is
 * higher than what is known, from wherever.
 */
static bool is_new_own(const struct sr_clock *c, uint64_t word)
{
	return is_anothers(c, word, 0) &&
	       sr_clock_event(word) >
		   atomic_load_explicit(&c->known[sr_clock_member(word)], memory_order_acquire);
}

static uint64_t load(const _Atomic uint64_t *word)
{
	return atomic_load_explicit(word, memory_order_relaxed);
}

static uint64_t load_seen(const _Atomic uint64_t *seen)
{
	return atomic_load_explicit(seen, memory_order_acquire);
}

/* Nearly always true: the word was seen before, or is this process's own. */
static inline bool is_quiet(const struct sr_clock *c, const _Atomic uint64_t *word,
			    const _Atomic uint64_t *seen)
{
	uint64_t value = load(word);

	return value == load_seen(seen) || sr_clock_member(value) == c->member;
}

/* Another member's own word, if it is new; if it is torn, the one before it.  0: none. */
static inline uint64_t load_own(const struct sr_clock *c, const struct sr_clock_view *v,
				const _Atomic uint64_t *words)
{
	uint64_t word = load(&words[0]);

	if (word == load_seen(&v->own) || sr_clock_member(word) == c->member)
		return 0;
	return sr_clock_is_torn(word, 0) ? load(&words[1]) : word;
}

/*
 * New words, and where they are.  A cell's word counts even if a higher number of that member is
 * known, since it shows what has landed.
 */
struct news {
	uint32_t n;
	uint32_t at[SR_CLOCK_CELL_WORDS];
	uint64_t word[SR_CLOCK_CELL_WORDS];
	bool is_order[SR_CLOCK_CELL_WORDS]; /* false: older than the other one */
};

static void add_news(const struct sr_clock *c, struct news *news, uint32_t at, const struct sr_clock_copy *copy)
{
	if (!is_anothers(c, copy->word, copy->known))
		return;
	news->at[news->n] = at;
	news->word[news->n] = copy->word;
	news->is_order[news->n++] = true;
}

static bool is_torn(const struct sr_clock_copy *copy)
{
	return sr_clock_is_torn(copy->word, copy->known);
}

struct sr_clock_copy sr_clock_copy_of(const struct sr_clock_pair *w)
{
	return (struct sr_clock_copy){load(&w->word), load(&w->known)};
}

static const struct sr_clock_pair *cell_at(const _Atomic uint64_t *words, uint32_t i)
{
	return (const struct sr_clock_pair *)&words[SR_CLOCK_HEAD_WORDS] + (size_t)SR_CLOCK_CELL_WORDS * i;
}

/*
 * The two words of a cell are written in turn.  A torn one is being written now, and all that has
 * landed came before it, so the other word counts.  A reader that is interrupted between the
 * two may find both torn; it reads again, which does not help if a READ brought them.  They are of
 * different members if the cell has got another queue pair.
 */
static void read_cell(const struct sr_clock *c, const struct sr_clock_view *v,
		      const _Atomic uint64_t *words, uint32_t i, struct news *news)
{
	uint32_t at = SR_CLOCK_CELL_WORDS * i;
	const struct sr_clock_pair *cell = cell_at(words, i);
	struct sr_clock_copy a = sr_clock_copy_of(&cell[0]), b = sr_clock_copy_of(&cell[1]);

	news->n = 0;
	for (int tries = 0; tries < TORN_TRIES && is_torn(&a) && is_torn(&b); tries++) {
		a = sr_clock_copy_of(&cell[0]);
		b = sr_clock_copy_of(&cell[1]);
	}
	if (a.word != load_seen(&v->seen[at]))
		add_news(c, news, at, &a);
	if (b.word != load_seen(&v->seen[at + 1]))
		add_news(c, news, at + 1, &b);
	if (news->n == 2 && sr_clock_member(a.word) == sr_clock_member(b.word))
		news->is_order[sr_clock_event(a.word) > sr_clock_event(b.word)] = false;
}

static uint32_t room_for(const struct sr_clock_view *v, uint32_t cells)
{
	return cells < v->cells ? cells : v->cells;
}

bool sr_clock_is_news(const struct sr_clock *c, const struct sr_clock_view *v,
		      const _Atomic uint64_t *words, uint32_t cells)
{
	const struct sr_clock_pair *cell = cell_at(words, 0);
	const _Atomic uint64_t *seen = v->seen;
	uint32_t n = room_for(v, cells);
	struct news news;

	/* The data was read before, and only so is its clock visible. */
	atomic_thread_fence(memory_order_acquire);
	if (is_new_own(c, load_own(c, v, words)))
		return true;
	for (uint32_t i = 0; i < n; i++, cell += SR_CLOCK_CELL_WORDS, seen += SR_CLOCK_CELL_WORDS) {
		if (is_quiet(c, &cell[0].word, &seen[0]) && is_quiet(c, &cell[1].word, &seen[1]))
			continue;
		read_cell(c, v, words, i, &news);
		if (news.n)
			return true;
	}
	return false;
}

bool sr_clock_is_short(const _Atomic uint64_t *words, uint32_t cells)
{
	if (sr_clock_cells_in_use(words) > cells)
		return true;
	if (sr_clock_is_torn(load(&words[0]), 0) && sr_clock_is_torn(load(&words[1]), 0))
		return true;
	for (uint32_t i = 0; i < cells; i++) {
		const struct sr_clock_pair *cell = cell_at(words, i);
		struct sr_clock_copy a = sr_clock_copy_of(&cell[0]), b = sr_clock_copy_of(&cell[1]);

		if (is_torn(&a) && is_torn(&b))
			return true;
	}
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
			uint32_t cells, struct sr_order *orders, uint32_t room,
			struct sr_clock_moment *moment)
{
	struct news found[SR_CLOCK_ORDERS];
	uint32_t n = 0, found_n = 0, limit = room_for(v, cells);
	uint64_t own = load_own(c, v, words);
	bool new_own;

	assert(room > SR_CLOCK_CELL_WORDS && room <= SR_CLOCK_ORDERS);
	atomic_thread_fence(memory_order_acquire);
	new_own = is_new_own(c, own);
	if (new_own)
		orders[n++] = order_of(own);
	for (uint32_t i = 0; i < limit && n + SR_CLOCK_CELL_WORDS <= room; i++) {
		struct news *news = &found[found_n];

		read_cell(c, v, words, i, news);
		for (uint32_t k = 0; k < news->n; k++)
			if (news->is_order[k])
				orders[n++] = order_of(news->word[k]);
		found_n += news->n > 0;
	}
	if (!n)
		return 0;
	/*
	 * The event is numbered before the words count as seen: a thread that finds them seen goes
	 * on, and its next event must come after this one.
	 */
	atomic_thread_fence(memory_order_acquire);
	moment->behind = c->drawn ? load(c->drawn) : 0;
	moment->event = sr_clock_tick(c);
	for (uint32_t i = 0; i < n; i++)
		raise_known(c, &orders[i]);
	if (new_own)
		atomic_store_explicit(&v->own, own, memory_order_release);
	for (uint32_t i = 0; i < found_n; i++)
		for (uint32_t k = 0; k < found[i].n; k++)
			atomic_store_explicit(&v->seen[found[i].at[k]], found[i].word[k],
					      memory_order_release);
	return n;
}
