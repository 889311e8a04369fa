/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/candidates.h"

#include <string.h>

#include "logd/base/checksum.h"
#include "shim/replay/group/group.h"
#include "shim/verbs/regions.h"

/* The result of an atomic may come to its rank only after this value was found. */
static void apply_atomic(const struct sr_candidates *s, const struct sr_written *w)
{
	const uint8_t *now = sr_exposed_backing((void *)s->v->addr);
	uint64_t word;

	memcpy(&word, now + w->from - w->before, sizeof(word));
	memcpy((uint8_t *)&word + w->before, s->bytes + w->from, w->length);
	word = sr_history_atomic(&(struct sr_group_write){.kind = w->kind, .at = w->at}, word);
	memcpy(s->bytes + w->from, (uint8_t *)&word + w->before, w->length);
}

static void apply(const struct sr_candidates *s, const struct sr_written *w, uint32_t length)
{
	if (sr_group_is_open(w->kind))
		apply_atomic(s, w);
	else
		sr_history_bytes(sr_group_self, w->at, s->bytes + w->from, length);
}

/* What the program has stored since values of this page were found last: over what had landed before. */
static void apply_own(const struct sr_candidates *s)
{
	const uint8_t *now = sr_exposed_backing((void *)s->v->addr);

	for (uint32_t i = s->owns; i--;)
		apply(s, &s->own[i], s->own[i].length);
	for (uint32_t i = 0; s->before && i < s->v->length; i++)
		if (s->before[i] != now[i])
			s->bytes[i] = now[i];
}

/* What the trace has of the event lies over all. */
static void apply_given(const struct sr_candidates *s)
{
	for (uint32_t i = 0; i < s->given_n; i++) {
		const struct sr_exposed_value *g = &s->given[i];

		if (g->addr >= s->v->addr && g->addr + g->length <= s->v->addr + s->v->length)
			memcpy(s->bytes + (g->addr - s->v->addr), g->data, g->length);
	}
}

static void apply_piece(const struct sr_candidates *s, const struct sr_unpolled_piece *p)
{
	const struct sr_exposed_value *v = s->v;
	uint64_t begin = p->at > v->addr ? p->at : v->addr;
	uint64_t end = p->at + p->n < v->addr + v->length ? p->at + p->n : v->addr + v->length;

	memcpy(s->bytes + (begin - v->addr), p->bytes + (begin - p->at), end - begin);
}

bool sr_candidate_fits(struct sr_candidates *s, uint32_t n)
{
	uint32_t at[WRITERS];

	s->tries++;
	memcpy(s->bytes, sr_exposed_backing((void *)s->v->addr), s->v->length);
	for (uint32_t i = 0; i < s->writers; i++)
		at[i] = s->writer[i].begin;
	for (uint32_t k = 0; k < n; k++) {
		uint32_t of = s->sequence[k];
		const struct sr_written *w = &s->writer[of].w[at[of]++];
		bool in_part = s->part != UINT32_MAX && of == s->partial && at[of] == s->writer[of].end;

		apply(s, w, in_part && s->part < w->length ? s->part : w->length);
	}
	if (s->own_last)
		apply_own(s);
	for (uint32_t i = 0; i < s->unpolled; i++)
		apply_piece(s, &s->piece[i]);
	apply_given(s);
	return !((sr_checksum(s->bytes, s->v->length, 0) ^ s->v->checksum) & s->v->mask);
}
