/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/stored_reads.h"

#include <errno.h>
#include <stdlib.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/races/borders.h"

#define WORD 8
/* Of a READ so many words are looked at. */
#define WORDS_MOST 512

/* A store to a word. */
struct node {
	uint32_t moment;
	uint32_t before; /* the store before it, plus 1; 0: none */
};

struct stores {
	struct sr_keymap words; /* the last store to each, plus 1 */
	struct sr_keymap followed; /* by reader and word, the last READ << 32, and the store, plus 1, that it came after */
	struct node *nodes;
	size_t n, room;
};

static int add(struct stores *s, const struct sr_access *a)
{
	for (uint64_t w = a->begin / WORD; w <= (a->end - 1) / WORD; w++) {
		struct node *at = sr_grow((void **)&s->nodes, s->n, &s->room, sizeof(*at));
		uint64_t last = 0;

		sr_keymap_get(&s->words, sr_keymap_of_rank(w, a->owner), &last);
		if (!at || sr_keymap_put(&s->words, sr_keymap_of_rank(w, a->owner), s->n + 1))
			return -ENOMEM;
		*at = (struct node){a->from, (uint32_t)last};
		s->n++;
	}
	return 0;
}

/* The last store to the word until this moment of its rank, plus 1. */
static uint64_t last_store(const struct stores *s, size_t owner, uint64_t word, uint32_t until)
{
	uint64_t at = 0;

	sr_keymap_get(&s->words, sr_keymap_of_rank(word, owner), &at);
	while (at && s->nodes[at - 1].moment > until)
		at = s->nodes[at - 1].before;
	return at;
}

/*
 * Has the rank's READ before this one come after the same store?  Then a word that has changed meanwhile was stored by another one, which
 * is not seen where it was.  (Several clocks may tell of one READ.)
 */
static int note_followed(struct stores *s, const struct sr_stored_read *r, size_t rank, uint64_t at, bool *is_same)
{
	const uint64_t key = sr_keymap_of_rank(sr_keymap_of_rank(r->begin / WORD, r->owner), rank);
	uint64_t last = 0;

	*is_same = sr_keymap_get(&s->followed, key, &last) && last >> 32 != (r->request & UINT32_MAX) && (last & UINT32_MAX) == at;
	return sr_keymap_put(&s->followed, key, r->request << 32 | at);
}

static int follow(struct sr_collect *c, struct stores *s, const struct sr_stored_read *r)
{
	const struct sr_collected_rank *owner = &c->ranks[r->owner];
	const struct sr_collected_request *rq = &c->requests[r->request - 1];
	bool is_last = r->event + 1 == owner->events_n, is_same = false;
	uint32_t until = is_last ? c->m->lanes[owner->lane].last : owner->events[r->event + 1].before;
	uint64_t found = 0;
	int err = 0;

	for (uint64_t w = r->begin / WORD; w <= (r->end - 1) / WORD && w < r->begin / WORD + WORDS_MOST; w++) {
		uint64_t at = last_store(s, r->owner, w, until);

		if (at && (!found || s->nodes[at - 1].moment > s->nodes[found - 1].moment))
			found = at;
	}
	if (r->begin / WORD == (r->end - 1) / WORD)
		err = note_followed(s, r, rq->rank, found, &is_same);
	if (is_same && rq->is_changed && !rq->is_written && !err)
		err = sr_collect_unknown_value(c, rq->over, rq->rank);
	if (found)
		sr_model_order(c->m, s->nodes[found - 1].moment, rq->r.effect, SR_DOUBTFUL, true);
	return err;
}

int sr_collect_follow_stores(struct sr_collect *c)
{
	struct stores s = {0};
	int err = 0;

	for (size_t i = 0; i < c->m->accesses_n && c->reads_n && c->m->of_kind[SR_ACCESS_STORE] && !err; i++)
		if (c->m->accesses[i].kind == SR_ACCESS_STORE)
			err = add(&s, &c->m->accesses[i]);
	for (size_t i = 0; i < c->reads_n && !err; i++)
		err = follow(c, &s, &c->reads[i]);
	free(s.nodes);
	sr_keymap_free(&s.words);
	sr_keymap_free(&s.followed);
	return err;
}
