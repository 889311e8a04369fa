/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/sockets.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/channels.h"
#include "replay/analysis/log/grow.h"

/* How a stream of bytes begins. */
struct beginning {
	char at[64];
	size_t n;
};

struct sr_socket_channel {
	struct sr_channel c; /* as it was last seen */
	struct beginning sent, received;
	uint32_t rank;
	uint32_t peer; /* another channel, or one of these: */
	bool is_inherited; /* a child may use it as well, and what goes through it is not counted as one */
};

#define NOT_LINKED UINT32_MAX

struct loading {
	struct sr_race_sockets *s;
	uint32_t rank;
	bool failed, is_child;
};

static bool is_channel(const struct sr_channel *c)
{
	return !strcmp(c->what, "socket") || !strcmp(c->what, "pipe") || !strcmp(c->what, "pair of sockets");
}

static uint32_t channel_of(struct loading *l, const struct sr_channel *c)
{
	struct sr_race_sockets *s = l->s;
	struct sr_socket_channel *k;

	for (size_t i = s->channels_n; i-- > 0;) {
		k = &s->channels[i];
		if (k->rank == l->rank && k->c.thread == c->thread && k->c.sn == c->sn && k->c.end == c->end) {
			k->c = *c;
			return (uint32_t)i;
		}
	}
	k = sr_grow((void **)&s->channels, s->channels_n, &s->channels_room, sizeof(*k));
	if (!k) {
		l->failed = true;
		return NOT_LINKED;
	}
	*k = (struct sr_socket_channel){.c = *c, .rank = l->rank, .peer = NOT_LINKED};
	return (uint32_t)s->channels_n++;
}

static void note_beginning(struct beginning *b, uint64_t at, const char *data, size_t n)
{
	if (at != b->n)
		return;
	if (n > sizeof(b->at) - b->n)
		n = sizeof(b->at) - b->n;
	if (n)
		memcpy(b->at + b->n, data, n);
	b->n += n;
}

static bool may_be_same(const struct beginning *sent, const struct beginning *received)
{
	return !memcmp(sent->at, received->at, sent->n < received->n ? sent->n : received->n);
}

static bool see(void *argument, const struct sr_channel_use *u)
{
	struct loading *l = argument;
	uint64_t begin = u->is_write ? u->channel->sent : u->channel->received;
	struct sr_socket_use *use;

	/* Nobody answers on standard output.  What a child has inherited may be a socket. */
	if (!(is_channel(u->channel) || (l->is_child && !*u->channel->what)) || u->fd <= 2 || !u->bytes)
		return true;
	use = sr_grow((void **)&l->s->uses, l->s->n, &l->s->room, sizeof(*use));
	if (!use) {
		l->failed = true;
		return false;
	}
	*use = (struct sr_socket_use){.sn = u->sn,
				      .begin = begin,
				      .end = begin + u->bytes,
				      .rank = l->rank,
				      .thread = u->thread,
				      .channel = channel_of(l, u->channel),
				      .moment = SR_NO_MOMENT,
				      .is_write = u->is_write};
	l->s->n++;
	if (!l->failed)
		note_beginning(u->is_write ? &l->s->channels[use->channel].sent : &l->s->channels[use->channel].received, begin,
			       u->data, u->data ? u->data_n : 0);
	return !l->failed;
}

static int by_call(const void *a, const void *b)
{
	const struct sr_socket_use *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return (x->sn > y->sn) - (x->sn < y->sn);
}

/* Two may have the same addresses: a server's connections, of which accept() was not asked who is there. */
static bool are_ends(const struct sr_socket_channel *a, const struct sr_socket_channel *b)
{
	return sr_channels_are_linked(&a->c, (int32_t)a->rank, &b->c, (int32_t)b->rank) &&
	       may_be_same(&b->sent, &a->received) && may_be_same(&a->sent, &b->received);
}

/* May the child have inherited it?  From a parent that is not known, all that its rank's processes have. */
static bool may_have(const struct sr_trace *t, const struct sr_race_child *k, const struct sr_socket_channel *c)
{
	if (k->parent != SR_NO_PARENT)
		return c->rank == k->parent && (c->c.thread != k->thread || c->c.sn < k->fork);
	return c->rank != k->rank && sr_trace_recorded_rank(t, sr_trace_rank_number(t, c->rank)) ==
					     sr_trace_recorded_rank(t, sr_trace_rank_number(t, k->rank));
}

static void inherit(struct sr_race_sockets *s, const struct sr_trace *t, const struct sr_race_kin *kin, uint32_t rank)
{
	const struct sr_race_child *k = sr_race_kin_of(kin, rank);

	for (size_t i = 0; k && i < s->channels_n; i++)
		s->channels[i].is_inherited |= may_have(t, k, &s->channels[i]);
	if (k && k->parent != SR_NO_PARENT)
		inherit(s, t, kin, k->parent);
}

/* Children that use a descriptor that they have not opened. */
static void find_inherited(struct sr_race_sockets *s, const struct sr_trace *t, const struct sr_race_kin *kin)
{
	for (size_t i = 0; i < s->channels_n; i++)
		if (!*s->channels[i].c.what)
			inherit(s, t, kin, s->channels[i].rank);
}

/* Each channel with the only one that it can lead to. */
static void find_peers(struct sr_race_sockets *s)
{
	for (size_t i = 0; i < s->channels_n; i++) {
		struct sr_socket_channel *a = &s->channels[i];
		size_t found = 0;

		for (size_t k = 0; k < s->channels_n; k++) {
			const struct sr_socket_channel *b = &s->channels[k];

			if (i == k || !are_ends(a, b))
				continue;
			a->peer = (uint32_t)k;
			found++;
		}
		if (found != 1)
			a->peer = NOT_LINKED;
	}
	for (size_t i = 0; i < s->channels_n; i++)
		if (s->channels[i].is_inherited)
			s->channels[i].peer = NOT_LINKED;
	for (size_t i = 0; i < s->n; i++) {
		uint32_t peer = s->channels[s->uses[i].channel].peer;

		s->uses[i].is_linked = peer != NOT_LINKED && s->channels[peer].peer == s->uses[i].channel;
	}
}

int sr_race_sockets_load(struct sr_race_sockets *s, struct sr_trace *t, const struct sr_race_kin *kin, struct sr_error *err)
{
	struct loading l = {.s = s};
	int ret = 0;

	for (size_t i = 0; i < sr_trace_ranks(t) && !ret; i++) {
		l.rank = (uint32_t)i;
		l.is_child = sr_trace_rank_number(t, i) >= SR_FIRST_ADOPTED;
		ret = sr_channels_walk(t, sr_trace_rank_number(t, i), see, &l, &s->shares_memory, err);
	}
	if (!ret && l.failed)
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	if (ret)
		return ret;
	if (s->n)
		qsort(s->uses, s->n, sizeof(*s->uses), by_call);
	find_inherited(s, t, kin);
	find_peers(s);
	return 0;
}

void sr_race_sockets_restart(struct sr_race_sockets *s)
{
	for (size_t i = 0; i < s->n; i++)
		s->uses[i].moment = SR_NO_MOMENT;
}

void sr_race_sockets_free(struct sr_race_sockets *s)
{
	free(s->uses);
	free(s->channels);
}

struct sr_socket_use *sr_race_sockets_uses(struct sr_race_sockets *s, uint32_t rank, uint32_t thread, uint64_t sn, size_t *n)
{
	const struct sr_socket_use wanted = {.rank = rank, .thread = thread, .sn = sn};
	size_t low = 0, high = s->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (by_call(&s->uses[middle], &wanted) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	for (*n = 0; low + *n < s->n && !by_call(&s->uses[low + *n], &wanted);)
		(*n)++;
	return &s->uses[low];
}

/* Writes by channel, and where their bytes begin. */
static int by_bytes(const void *a, const void *b)
{
	const struct sr_socket_use *x = *(struct sr_socket_use *const *)a, *y = *(struct sr_socket_use *const *)b;

	if (x->channel != y->channel)
		return x->channel < y->channel ? -1 : 1;
	return (x->begin > y->begin) - (x->begin < y->begin);
}

struct writes {
	struct sr_socket_use **at;
	size_t n;
};

static bool find_writes(struct sr_race_sockets *s, struct writes *w)
{
	w->at = malloc((s->n + 1) * sizeof(*w->at));
	for (size_t i = 0; w->at && i < s->n; i++)
		if (s->uses[i].is_write && s->uses[i].moment != SR_NO_MOMENT)
			w->at[w->n++] = &s->uses[i];
	if (w->at)
		qsort(w->at, w->n, sizeof(struct sr_socket_use *), by_bytes);
	return w->at;
}

/* The last write of the other end that brought some of these bytes. */
static const struct sr_socket_use *source_of(const struct sr_race_sockets *s, const struct writes *w,
					     const struct sr_socket_use *read)
{
	const struct sr_socket_use wanted = {.channel = s->channels[read->channel].peer, .begin = read->end},
				   *last = &wanted;
	size_t low = 0, high = w->n;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (by_bytes(&w->at[middle], &last) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low && w->at[low - 1]->channel == wanted.channel ? w->at[low - 1] : NULL;
}

void sr_race_sockets_link(struct sr_race_sockets *s, struct sr_race_model *m)
{
	struct writes w = {0};

	if (!find_writes(s, &w))
		m->is_full = true;
	for (size_t i = 0; w.at && i < s->n; i++) {
		const struct sr_socket_use *u = &s->uses[i];
		const struct sr_socket_use *from = u->is_write || !u->is_linked ? NULL : source_of(s, &w, u);

		/* The calls of one rank have an order already. */
		if (from && from->rank != u->rank)
			sr_model_order(m, from->moment, u->moment, SR_SURE, false);
	}
	free(w.at);
}
