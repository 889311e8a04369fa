/* SPDX-License-Identifier: BSD-2-Clause */
#include "nicclock/picks.h"

/* An entry counts no more. */
#define MOST (UINT32_MAX - 1)

#define MESSAGE_BITS (64 - SR_CLOCK_EVENT_BITS)

/* Was the clock posted before the message?  The two are less than half of all numbers apart. */
static bool is_before(uint64_t known, uint64_t message)
{
	uint64_t apart = (message - (known >> SR_CLOCK_EVENT_BITS)) & ((1ull << MESSAGE_BITS) - 1);

	return !(apart >> (MESSAGE_BITS - 1));
}

uint64_t sr_known_before(const struct sr_clock_pair cell[SR_CLOCK_CELL_WORDS], int member, uint64_t message)
{
	uint64_t best = 0;

	for (int i = 0; i < SR_CLOCK_CELL_WORDS; i++) {
		struct sr_clock_copy c = sr_clock_copy_of(&cell[i]);
		uint64_t event = c.known & SR_CLOCK_EVENT_MASK;

		if (sr_clock_is_word(c.word, c.known) && sr_clock_member(c.word) == member && is_before(c.known, message) &&
		    event > best)
			best = event;
	}
	return best;
}

bool sr_pick_races(const struct sr_picks *p, uint64_t queue, uint64_t known)
{
	return p->any && p->queue != queue && known <= p->event;
}

void sr_pick_was(struct sr_picks *p, uint64_t queue, uint64_t event)
{
	*p = (struct sr_picks){true, queue, event};
}

bool sr_pick_entry(struct sr_pick_counts *c, struct sr_pick_counts *entry)
{
	if (!c->untraced && c->traced < MOST)
		return false;
	*entry = *c;
	*c = (struct sr_pick_counts){0};
	return true;
}

bool sr_pick_count(struct sr_pick_counts *c, bool is_traced, struct sr_pick_counts *entry)
{
	bool ends = (is_traced || c->untraced == MOST) && sr_pick_entry(c, entry);

	if (is_traced)
		c->traced++;
	else
		c->untraced++;
	return ends;
}

bool sr_pick_may_come(const struct sr_pick_script *s)
{
	return s->at < s->n && s->taken.traced == s->entries[s->at].traced && s->taken.untraced < s->entries[s->at].untraced;
}

bool sr_pick_take(struct sr_pick_script *s, bool is_traced)
{
	const struct sr_pick_counts *e = s->entries + s->at;

	/* Behind the last entry all are traced. */
	if (s->at == s->n)
		return is_traced;
	if (is_traced ? s->taken.traced == e->traced : !sr_pick_may_come(s))
		return false;
	if (is_traced)
		s->taken.traced++;
	else
		s->taken.untraced++;
	if (s->taken.traced == e->traced && s->taken.untraced == e->untraced) {
		s->taken = (struct sr_pick_counts){0};
		s->at++;
	}
	return true;
}
