/* SPDX-License-Identifier: BSD-2-Clause */
/* picks.c: whose the completions are whose records do not say it (nicclock/picks.h); see own.h. */
#include "replay/analysis/process/own.h"

#include <errno.h>
#include <stdlib.h>

#include "replay/analysis/log/grow.h"

static uint64_t queue_key(uint32_t qp_num, bool receives)
{
	return (uint64_t)qp_num << 1 | receives;
}

/* NULL: each completion of this queue says whose it is. */
static struct script *script_of(const struct rank *r, uint64_t cq, uint32_t qp_num, bool receives)
{
	uint64_t at;
	bool any = sr_keymap_get(&r->script_of, queue_key(qp_num, receives), &at);

	for (; any && at != SIZE_MAX; at = r->scripts[at].other)
		if (r->scripts[at].cq == cq)
			return &r->scripts[at];
	return NULL;
}

static struct script *add_script(struct rank *r, const struct sr_picked_payload *p)
{
	const uint64_t key = queue_key(p->qp_num, p->receives);
	struct script *s;
	uint64_t other;

	if (!sr_keymap_get(&r->script_of, key, &other))
		other = SIZE_MAX;
	s = sr_grow((void **)&r->scripts, r->scripts_n, &r->scripts_room, sizeof(*s));
	if (!s || sr_keymap_put(&r->script_of, key, r->scripts_n))
		return NULL;
	r->scripts_n++;
	*s = (struct script){.cq = p->cq, .qp_num = p->qp_num, .receives = p->receives, .other = other};
	return s;
}

static int add_entry(struct rank *r, const struct sr_picked_payload *p)
{
	struct script *s = script_of(r, p->cq, p->qp_num, p->receives);
	struct sr_pick_counts *entry;

	if (!s)
		s = add_script(r, p);
	if (!s)
		return -ENOMEM;
	entry = sr_grow((void **)&s->s.entries, s->s.n, &s->room, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	*entry = (struct sr_pick_counts){p->traced, p->untraced};
	s->s.n++;
	return 0;
}

int sr_log_read_picks(struct process *p, size_t rank)
{
	const struct sr_links_rank *l = &p->links->ranks[rank];
	int err = 0;

	for (size_t i = 0; i < l->picked_n && !err; i++)
		err = add_entry(&p->ranks[rank], &l->picked[i]);
	return err;
}

void sr_log_free_picks(struct rank *r)
{
	for (size_t i = 0; i < r->scripts_n; i++)
		free(r->scripts[i].s.entries);
	free(r->scripts);
	sr_keymap_free(&r->script_of);
}

/* Has the request, or the message, of the queue's next completion been posted? */
static bool is_there(const struct process *p, const struct qp *q, bool receives)
{
	const struct qp *other = receives ? sr_log_other_end(p, q) : NULL;

	return receives ? other && other->messages.used : sr_send_queue_next_signaled(&q->sends, NULL) != NULL;
}

struct qp *sr_log_find_pick(struct process *p, size_t rank, uint64_t cq, bool receives)
{
	struct rank *r = &p->ranks[rank];

	for (size_t i = 0; i < r->scripts_n; i++) {
		const struct script *s = &r->scripts[i];
		struct qp *q;

		if (s->cq != cq || s->receives != receives || !sr_pick_may_come(&s->s))
			continue;
		q = sr_log_qp_numbered(r, s->qp_num);
		if (q && is_there(p, q, receives))
			return q;
	}
	return NULL;
}

uint64_t sr_log_next_wr_id(const struct qp *q)
{
	const struct sr_send_request *r = sr_send_queue_next_signaled(&q->sends, NULL);

	return r ? r->wr_id : 0;
}

bool sr_log_take_pick(struct rank *r, uint64_t cq, uint32_t qp_num, bool receives, bool is_traced)
{
	struct script *s = r->scripts_n ? script_of(r, cq, qp_num, receives) : NULL;

	return s ? sr_pick_take(&s->s, is_traced) : is_traced;
}
