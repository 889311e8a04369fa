/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/orders.h"

int sr_orders_open(struct sr_orders *o, struct sr_plan *p, const struct sr_group *g, int32_t rank,
		   uint32_t thread, struct sr_error *err)
{
	const void *waits, *peers, *picks;
	int error;

	*o = (struct sr_orders){.group = g};
	error = sr_plan_records(p, SR_PLAN_WAIT, rank, thread, &waits, &o->n_waits, err);
	if (!error)
		error = sr_plan_records(p, SR_PLAN_PEER, rank, thread, &peers, &o->n_peers, err);
	if (!error)
		error = sr_plan_records(p, SR_PLAN_PICK, rank, thread, &picks, &o->n_picks, err);
	if (error)
		return error;
	o->waits = waits;
	o->peers = peers;
	o->picks = picks;
	return 0;
}

/* -1: a rank that is not replayed now. */
static int32_t member_of(const struct sr_group *g, int32_t rank)
{
	for (uint32_t i = 0; i < g->members; i++)
		if (g->member[i].rank == rank)
			return (int32_t)i;
	return -1;
}

static int send_peer(const struct sr_orders *o, const struct sr_plan_peer *p,
		     int (*send)(void *argument, uint16_t kind, const void *payload, size_t size),
		     void *argument)
{
	const struct sr_group_peer peer = {
	    .qp = p->qp,
	    .qp_num = p->qp_num,
	    .peer_qp_num = p->peer_qp_num,
	    .peer = p->peer >= 0 ? member_of(o->group, p->peer) : -1,
	};

	return send(argument, SR_REC_REPLAY_PEER, &peer, sizeof(peer));
}

static int send_wait(const struct sr_orders *o, const struct sr_plan_wait *w,
		     int (*send)(void *argument, uint16_t kind, const void *payload, size_t size),
		     void *argument)
{
	const struct sr_group_wait wait = {
	    .member = member_of(o->group, w->for_rank),
	    .thread = w->for_thread,
	    .sn = w->for_sn,
	    .stop = w->for_stop,
	};

	if (wait.member < 0)
		return 0;
	return send(argument, SR_REC_REPLAY_WAIT, &wait, sizeof(wait));
}

static int send_pick(const struct sr_plan_pick *p, int (*send)(void *argument, uint16_t kind, const void *payload, size_t size),
		     void *argument)
{
	const struct sr_replay_pick pick = {.sn = p->sn, .qp_num = p->qp_num, .receives = p->receives};

	return send(argument, SR_REC_REPLAY_PICK, &pick, sizeof(pick));
}

static bool is_before(const struct sr_plan_wait *w, uint64_t sn, uint32_t fault)
{
	return w->sn < sn || (w->sn == sn && w->fault <= fault);
}

int sr_orders_before(struct sr_orders *o, uint64_t sn, uint32_t fault,
		     int (*send)(void *argument, uint16_t kind, const void *payload, size_t size),
		     void *argument)
{
	int error = 0;

	while (!error && o->next_peer < o->n_peers && o->peers[o->next_peer].sn <= sn)
		error = send_peer(o, &o->peers[o->next_peer++], send, argument);
	while (!error && o->next_wait < o->n_waits && is_before(&o->waits[o->next_wait], sn, fault))
		error = send_wait(o, &o->waits[o->next_wait++], send, argument);
	while (!error && o->next_pick < o->n_picks && o->picks[o->next_pick].sn <= sn)
		error = send_pick(&o->picks[o->next_pick++], send, argument);
	return error;
}

uint64_t sr_orders_next(const struct sr_orders *o)
{
	const struct sr_plan_wait *w = o->next_wait < o->n_waits ? &o->waits[o->next_wait] : NULL;
	uint64_t next = o->next_peer < o->n_peers ? o->peers[o->next_peer].sn : UINT64_MAX;

	/* Polls with completions do not come in turn. */
	/* What is for a fault comes behind the call. */
	if (w && w->sn + !!w->fault < next)
		next = w->sn + !!w->fault;
	return next;
}
