/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/stored_reads.h"

#include <errno.h>
#include <stdlib.h>

#include "replay/analysis/log/grow.h"

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
	struct node *nodes;
	size_t n, room;
};

static uint64_t key_of(size_t owner, uint64_t word)
{
	return word * 0x10001 + owner;
}

static int add(struct stores *s, const struct sr_access *a)
{
	for (uint64_t w = a->begin / WORD; w <= (a->end - 1) / WORD; w++) {
		struct node *at = sr_grow((void **)&s->nodes, s->n, &s->room, sizeof(*at));
		uint64_t last = 0;

		sr_keymap_get(&s->words, key_of(a->owner, w), &last);
		if (!at || sr_keymap_put(&s->words, key_of(a->owner, w), s->n + 1))
			return -ENOMEM;
		*at = (struct node){a->from, (uint32_t)last};
		s->n++;
	}
	return 0;
}

/* The last store to the word until this moment of its rank. */
static uint32_t last_store(const struct stores *s, size_t owner, uint64_t word, uint32_t until)
{
	uint64_t at = 0;

	sr_keymap_get(&s->words, key_of(owner, word), &at);
	while (at && s->nodes[at - 1].moment > until)
		at = s->nodes[at - 1].before;
	return at ? s->nodes[at - 1].moment : SR_NO_MOMENT;
}

static void follow(struct sr_collect *c, const struct stores *s, const struct sr_stored_read *r)
{
	const struct sr_collected_rank *owner = &c->ranks[r->owner];
	bool is_last = r->event + 1 == owner->events_n;
	uint32_t until = is_last ? c->m->lanes[owner->lane].last : owner->events[r->event + 1].before;
	uint32_t found = SR_NO_MOMENT;

	for (uint64_t w = r->begin / WORD; w <= (r->end - 1) / WORD && w < r->begin / WORD + WORDS_MOST; w++) {
		uint32_t at = last_store(s, r->owner, w, until);

		if (at != SR_NO_MOMENT && (found == SR_NO_MOMENT || at > found))
			found = at;
	}
	sr_model_order(c->m, found, r->effect, SR_DOUBTFUL, true);
}

int sr_collect_follow_stores(struct sr_collect *c)
{
	struct stores s = {0};
	int err = 0;

	for (size_t i = 0; i < c->m->accesses_n && c->reads_n && !err; i++)
		if (c->m->accesses[i].kind == SR_ACCESS_STORE)
			err = add(&s, &c->m->accesses[i]);
	for (size_t i = 0; i < c->reads_n && !err; i++)
		follow(c, &s, &c->reads[i]);
	free(s.nodes);
	sr_keymap_free(&s.words);
	return err;
}
