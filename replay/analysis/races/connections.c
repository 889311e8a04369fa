/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/connections.h"

#include <errno.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/races/positions.h"

/* What came before the connection was made belongs to it, too: the identifier tells. */
static void name_end(struct sr_collect *c, const struct sr_cm_act *a)
{
	for (size_t i = c->cm_n; i-- > 0 && a->end != SR_NO_END;)
		if (c->cm[i].rank == a->rank && c->cm[i].id == a->id) {
			if (c->cm[i].end != SR_NO_END)
				return;
			c->cm[i].end = a->end;
		}
}

int sr_collect_cm(void *argument, const struct sr_cm_act *a)
{
	struct sr_collect *c = argument;
	struct sr_collected_cm *added;

	name_end(c, a);
	added = sr_grow((void **)&c->cm, c->cm_n, &c->cm_room, sizeof(*added));
	if (!added)
		return -ENOMEM;
	*added = (struct sr_collected_cm){.id = a->id,
					  .end = a->end,
					  .rank = a->rank,
					  .moment = sr_collect_moment(c, a->rank, &a->at, false),
					  .what = a->what};
	c->cm_n++;
	return 0;
}

/* The first one of an end; SR_NO_MOMENT: there is none. */
static uint32_t moment_of(const struct sr_collect *c, size_t end, enum sr_cm_what what)
{
	for (size_t i = 0; i < c->cm_n; i++)
		if (c->cm[i].end == end && c->cm[i].what == what)
			return c->cm[i].moment;
	return SR_NO_MOMENT;
}

static bool is_of_other_rank(const struct sr_collect *c, size_t end, size_t peer)
{
	return c->how->links->ends[end].rank != c->how->links->ends[peer].rank;
}

/* One end has asked, the other one was asked.  A call that waits for the answer is both: the answer counts. */
static void follow_asking(struct sr_collect *c, size_t asks, size_t asked)
{
	const uint32_t connects = moment_of(c, asks, SR_CM_CONNECTS), established = moment_of(c, asks, SR_CM_ESTABLISHED);
	const uint32_t accepts = moment_of(c, asked, SR_CM_CONNECTS);

	if (established == SR_NO_MOMENT) {
		sr_model_order(c->m, accepts, connects, SR_SURE, false);
		return;
	}
	sr_model_order(c->m, connects, moment_of(c, asked, SR_CM_REQUESTED), SR_SURE, false);
	sr_model_order(c->m, accepts, established, SR_SURE, false);
	sr_model_order(c->m, established, moment_of(c, asked, SR_CM_ESTABLISHED), SR_SURE, false);
}

/* To who has ended the connection himself the event also comes if the other end does not answer. */
static void follow_ending(struct sr_collect *c, size_t ends, size_t is_told)
{
	const uint32_t told = moment_of(c, is_told, SR_CM_DISCONNECTED), own = moment_of(c, is_told, SR_CM_DISCONNECTS);

	sr_model_order(c->m, moment_of(c, ends, SR_CM_DISCONNECTS), told, own < told ? SR_DOUBTFUL : SR_SURE, false);
}

static void follow_end(struct sr_collect *c, size_t end)
{
	const size_t peer = c->how->links->ends[end].peer;

	if (peer == SR_NO_END || !is_of_other_rank(c, end, peer))
		return;
	if (moment_of(c, peer, SR_CM_REQUESTED) != SR_NO_MOMENT)
		follow_asking(c, end, peer);
	follow_ending(c, end, peer);
}

static bool is_first(const struct sr_collect *c, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (c->cm[k].end == c->cm[i].end)
			return false;
	return true;
}

void sr_collect_follow_cm(struct sr_collect *c)
{
	for (size_t i = 0; i < c->cm_n; i++)
		if (c->cm[i].end != SR_NO_END && is_first(c, i))
			follow_end(c, c->cm[i].end);
}
