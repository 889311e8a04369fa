/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/links.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/decode.h"
#include "replay/analysis/log/grow.h"

/* A queue pair, while a rank's calls are read. */
struct qp {
	uint32_t qp_num, type;
	size_t end; /* the last one, or SR_NO_END */
};

struct pass {
	struct sr_links *l;
	size_t rank;
	struct qp *qps;
	size_t qps_n, qps_room;
	struct sr_keymap by_address; /* to its place in qps */
	struct sr_keymap cm_peers;   /* librdmacm's identifier to the other end's number */
};

static void *one_more(void *list, size_t n, size_t *room, size_t bytes)
{
	void *more;

	if (n < *room)
		return list;
	more = realloc(list, (*room ? 2 * *room : 16) * bytes);
	if (more)
		*room = *room ? 2 * *room : 16;
	return more;
}

/* ---- what a rank's control path says ---- */

static struct qp *find_qp(struct pass *p, uint64_t address)
{
	uint64_t at;

	return sr_keymap_get(&p->by_address, address, &at) ? &p->qps[at] : NULL;
}

static bool add_datagram_end(struct pass *p, uint32_t qp_num)
{
	struct sr_links *l = p->l;
	struct sr_datagram_end *more = one_more(l->datagrams, l->datagrams_n, &l->datagrams_room, sizeof(*more));

	if (!more)
		return false;
	l->datagrams = more;
	l->datagrams[l->datagrams_n++] = (struct sr_datagram_end){p->rank, qp_num};
	return true;
}

static struct qp *add_qp(struct pass *p, uint64_t address, uint32_t qp_num, uint32_t type)
{
	struct qp *more = one_more(p->qps, p->qps_n, &p->qps_room, sizeof(*p->qps));

	if (!more)
		return NULL;
	p->qps = more;
	if (sr_keymap_put(&p->by_address, address, p->qps_n) || (type == IBV_QPT_UD && !add_datagram_end(p, qp_num)))
		return NULL;
	p->qps[p->qps_n] = (struct qp){.qp_num = qp_num, .type = type, .end = SR_NO_END};
	return &p->qps[p->qps_n++];
}

static struct sr_end *add_end(struct pass *p, struct qp *qp, uint64_t address, uint32_t peer_qp_num,
			      const struct sr_log_call *c)
{
	struct sr_links *l = p->l;
	struct sr_end *more = one_more(l->ends, l->ends_n, &l->ends_room, sizeof(*l->ends));

	if (!more)
		return NULL;
	l->ends = more;
	qp->end = l->ends_n;
	l->ends[l->ends_n] = (struct sr_end){.rank = p->rank,
					     .thread = c->thread,
					     .sn = c->sn,
					     .qp = address,
					     .qp_num = qp->qp_num,
					     .peer_qp_num = peer_qp_num,
					     .type = qp->type,
					     .peer = SR_NO_END};
	return &l->ends[l->ends_n++];
}

static int see_modify(struct pass *p, const struct sr_log_call *c)
{
	struct sr_log_modify_qp v;
	struct sr_end *end;
	struct qp *qp;

	if (!sr_log_get_modify_qp(c, &v))
		return 0;
	qp = find_qp(p, v.qp);
	if (!qp || !(v.mask & IBV_QP_STATE))
		return 0;
	if (v.attr.qp_state == IBV_QPS_RTR && v.mask & IBV_QP_DEST_QPN) {
		end = add_end(p, qp, v.qp, v.attr.dest_qp_num, c);
		if (!end)
			return -ENOMEM;
		end->rq_psn = v.attr.rq_psn;
		end->sgid_index = v.attr.ah_attr.grh.sgid_index;
		end->has_gid = v.attr.ah_attr.is_global;
		memcpy(end->gid, v.attr.ah_attr.grh.dgid.raw, sizeof(end->gid));
	} else if (v.attr.qp_state == IBV_QPS_RTS && qp->end != SR_NO_END &&
		   v.mask & IBV_QP_SQ_PSN) {
		p->l->ends[qp->end].sq_psn = v.attr.sq_psn;
		p->l->ends[qp->end].psn_known = true;
	}
	return 0;
}

static int see_cm(struct pass *p, const struct sr_log_call *c)
{
	struct sr_log_cm v;
	uint64_t peer_number;
	struct qp *qp;

	if (!sr_log_get_cm(c, &v))
		return 0;
	if (v.peer_qp_num && sr_keymap_put(&p->cm_peers, v.id, v.peer_qp_num))
		return -ENOMEM;
	if (!v.qp)
		return 0;
	qp = find_qp(p, v.qp);
	if (!qp || qp->qp_num != v.qp_num)
		qp = add_qp(p, v.qp, v.qp_num, v.qp_type);
	if (!qp)
		return -ENOMEM;
	if (qp->end != SR_NO_END || !sr_keymap_get(&p->cm_peers, v.id, &peer_number) || !peer_number)
		return 0;
	return add_end(p, qp, v.qp, (uint32_t)peer_number, c) ? 0 : -ENOMEM;
}

/* The next identifier at this address has another peer; one that connects has none yet when it gets its queue pair. */
static int forget_peer(struct pass *p, uint64_t id)
{
	uint64_t before;

	return sr_keymap_get(&p->cm_peers, id, &before) ? sr_keymap_put(&p->cm_peers, id, 0) : 0;
}

static int add_region(struct sr_links_rank *r, const struct sr_log_call *c, const struct sr_log_reg_mr *v)
{
	struct sr_region *added = sr_grow((void **)&r->regions, r->regions_n, &r->regions_room, sizeof(*added));

	if (!added)
		return -ENOMEM;
	*added = (struct sr_region){v->addr, v->addr + v->length, c->sn, c->site, c->thread};
	r->regions_n++;
	return 0;
}

static int see_mr(struct sr_links_rank *r, const struct sr_log_call *c)
{
	struct sr_log_reg_mr v;
	uint64_t before;

	if (!sr_log_get_reg_mr(c, &v))
		return 0;
	if (add_region(r, c, &v))
		return -ENOMEM;
	if (v.is_relaxed && sr_keymap_put(&r->relaxed, v.rkey, 1))
		return -ENOMEM;
	/*
	 * Keeps only keys whose iova is not the address; a key that is used again may return to
	 * that.
	 */
	if (v.iova == v.addr && !sr_keymap_get(&r->rkeys, v.rkey, &before) &&
	    !sr_keymap_get(&r->lkeys, v.lkey, &before))
		return 0;
	if (sr_keymap_put(&r->lkeys, v.lkey, v.iova - v.addr) ||
	    sr_keymap_put(&r->rkeys, v.rkey, v.iova - v.addr))
		return -ENOMEM;
	return 0;
}

static int see_gid(struct sr_links_rank *r, const struct sr_log_call *c)
{
	struct sr_log_gid v;
	void *more;

	if (!sr_log_get_gid(c, &v))
		return 0;
	more = realloc(r->gid, (r->gids_n + 1) * sizeof(*r->gid));
	if (!more || sr_keymap_put(&r->gids, v.index, r->gids_n)) {
		r->gid = more ? more : r->gid;
		return -ENOMEM;
	}
	r->gid = more;
	memcpy(r->gid[r->gids_n++], v.gid, sizeof(v.gid));
	return 0;
}

static int see(struct pass *p, const struct sr_log_call *c)
{
	struct sr_links_rank *r = &p->l->ranks[p->rank];
	struct sr_log_create_qp qp;

	switch (c->what) {
	case SR_WHAT_CREATE_QP:
	case SR_WHAT_CREATE_QP_EX:
		if (!sr_log_get_create_qp(c, &qp) || !qp.qp)
			return 0;
		return add_qp(p, qp.qp, qp.qp_num, qp.type) ? 0 : -ENOMEM;
	case SR_WHAT_MODIFY_QP:
		return see_modify(p, c);
	case SR_WHAT_REG_MR:
	case SR_WHAT_REG_MR_IOVA:
		return see_mr(r, c);
	case SR_WHAT_QUERY_GID:
	case SR_WHAT_QUERY_GID_EX:
		return see_gid(r, c);
	case SR_WHAT_CM_EVENT:
	case SR_WHAT_CM_CREATE_QP:
	case SR_WHAT_CM_CREATE_QP_EX:
	case SR_WHAT_CM_CREATE_EP:
	case SR_WHAT_CM_CONNECT:
	case SR_WHAT_CM_REQUEST:
		return see_cm(p, c);
	case SR_WHAT_CM_DESTROY:
	case SR_WHAT_CM_DESTROY_ID:
		return forget_peer(p, sr_log_destroyed(c));
	default:
		return 0;
	}
}

/* ---- a pass over each rank ---- */

static int tell_places(const struct sr_log_rank *log, int32_t rank,
		       const struct sr_links_hooks *hooks)
{
	const struct sr_stream_place *places;
	int err = 0;

	for (size_t i = 0; hooks && hooks->places && i < sr_log_rank_threads(log) && !err; i++) {
		size_t n;
		uint32_t thread = sr_log_rank_thread(log, i, &places, &n);

		err = hooks->places(hooks->argument, rank, thread, places, n);
	}
	return err;
}

static int by_post(const void *a, const void *b)
{
	const struct sr_changed_payload *x = a, *y = b;

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->sn != y->sn)
		return x->sn < y->sn ? -1 : 1;
	return (x->number > y->number) - (x->number < y->number);
}

bool sr_links_has_changed(const struct sr_links *l, size_t rank, uint32_t thread, uint64_t sn, uint32_t number)
{
	const struct sr_links_rank *r = &l->ranks[rank];
	const struct sr_changed_payload key = {.sn = sn, .thread = thread, .number = number};

	return r->changed_n && bsearch(&key, r->changed, r->changed_n, sizeof(key), by_post);
}

static int read_rank(struct sr_links *l, size_t rank, struct sr_trace *t,
		     const struct sr_links_hooks *hooks, struct sr_error *err)
{
	struct pass p = {.l = l, .rank = rank};
	struct sr_links_rank *r = &l->ranks[rank];
	struct sr_log_rank *log;
	struct sr_log_call call;
	int ret = sr_log_rank_open(&log, t, r->number, true, NULL, err), bad = 0;

	if (ret)
		return ret;
	while (!bad && (ret = sr_log_rank_next(log, &call, err)) > 0)
		bad = see(&p, &call);
	if (!ret && !bad)
		bad = tell_places(log, r->number, hooks);
	if (bad)
		ret = sr_error_set(err, bad, "%s",
				   bad == -ENOMEM ? "no memory left" : strerror(-bad));
	r->records = sr_log_rank_records(log);
	r->picked = sr_log_rank_take_picked(log, &r->picked_n);
	r->changed = sr_log_rank_take_changed(log, &r->changed_n);
	if (r->changed_n)
		qsort(r->changed, r->changed_n, sizeof(*r->changed), by_post);
	r->is_cut = sr_log_rank_cut(log);
	sr_log_rank_close(log);
	sr_keymap_free(&p.by_address);
	sr_keymap_free(&p.cm_peers);
	free(p.qps);
	return ret;
}

/* ---- pairs ---- */

static bool knows_gid(const struct sr_links_rank *r, const struct sr_end *e, const uint8_t **gid)
{
	uint64_t at;

	if (!sr_keymap_get(&r->gids, e->sgid_index, &at))
		return false;
	*gid = r->gid[at];
	return true;
}

/* How well b fits as the other end of a; -1: not at all. */
static int fits(const struct sr_links *l, const struct sr_end *a, const struct sr_end *b)
{
	const uint8_t *gid;
	int score = 0;

	if (b->peer != SR_NO_END || b->qp_num != a->peer_qp_num || b->peer_qp_num != a->qp_num ||
	    a->type != b->type)
		return -1;
	if (a->psn_known && b->psn_known) {
		if (a->rq_psn != b->sq_psn || b->rq_psn != a->sq_psn)
			return -1;
		score += 2;
	}
	if (a->has_gid && knows_gid(&l->ranks[b->rank], b, &gid)) {
		if (memcmp(a->gid, gid, 16))
			return -1;
		score++;
	}
	if (b->has_gid && knows_gid(&l->ranks[a->rank], a, &gid)) {
		if (memcmp(b->gid, gid, 16))
			return -1;
		score++;
	}
	return score;
}

/*
 * Two candidates that fit equally well are certain only if they are the same two queue pairs,
 * connected more than once: these are paired in their order.
 */
static void pair(struct sr_links *l, size_t i, const size_t *next, size_t first)
{
	struct sr_end *a = &l->ends[i], *best = NULL;
	int score = -1;
	bool doubt = false;

	for (size_t k = first; k != SR_NO_END; k = next[k]) {
		struct sr_end *b = &l->ends[k];
		int s = fits(l, a, b);

		if (s < 0)
			continue;
		if (best && s == score && (b->rank != best->rank || b->qp != best->qp))
			doubt = true;
		if (s > score) {
			score = s;
			best = b;
			doubt = false;
		}
	}
	if (!best)
		return;
	a->peer = (size_t)(best - l->ends);
	best->peer = i;
	a->ambiguous = best->ambiguous = doubt;
}

static int pair_all(struct sr_links *l)
{
	size_t *next = calloc(l->ends_n + 1, sizeof(*next));
	struct sr_keymap by_numbers = {0};
	uint64_t first;
	int err = next ? 0 : -ENOMEM;

	/* Lists of the ends with the same two numbers, in their order. */
	for (size_t i = l->ends_n; i-- > 0 && !err;) {
		uint64_t key = (uint64_t)l->ends[i].qp_num << 32 | l->ends[i].peer_qp_num;

		next[i] = sr_keymap_get(&by_numbers, key, &first) ? first : SR_NO_END;
		err = sr_keymap_put(&by_numbers, key, i);
	}
	for (size_t i = 0; i < l->ends_n && !err; i++) {
		uint64_t key = (uint64_t)l->ends[i].peer_qp_num << 32 | l->ends[i].qp_num;

		if (l->ends[i].peer == SR_NO_END && sr_keymap_get(&by_numbers, key, &first))
			pair(l, i, next, first);
	}
	sr_keymap_free(&by_numbers);
	free(next);
	return err;
}

static int by_place(const void *a, const void *b, void *ends)
{
	const struct sr_end *x = &((const struct sr_end *)ends)[*(const size_t *)a];
	const struct sr_end *y = &((const struct sr_end *)ends)[*(const size_t *)b];

	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	if (x->sn != y->sn)
		return x->sn < y->sn ? -1 : 1;
	return x < y ? -1 : x > y;
}

static int list_ends(struct sr_links *l, size_t rank)
{
	struct sr_links_rank *r = &l->ranks[rank];

	for (size_t i = 0; i < l->ends_n; i++)
		r->ends_n += l->ends[i].rank == rank;
	r->ends = calloc(r->ends_n + 1, sizeof(*r->ends));
	if (!r->ends)
		return -ENOMEM;
	r->ends_n = 0;
	for (size_t i = 0; i < l->ends_n; i++)
		if (l->ends[i].rank == rank)
			r->ends[r->ends_n++] = i;
	qsort_r(r->ends, r->ends_n, sizeof(*r->ends), by_place, l->ends);
	return 0;
}

const size_t *sr_links_at(const struct sr_links *l, size_t rank, uint32_t thread, uint64_t sn,
			  size_t *n)
{
	const struct sr_links_rank *r = &l->ranks[rank];
	size_t low = 0, high = r->ends_n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct sr_end *e = &l->ends[r->ends[middle]];

		if (e->thread < thread || (e->thread == thread && e->sn < sn))
			low = middle + 1;
		else
			high = middle;
	}
	for (*n = 0; low + *n < r->ends_n; ++*n) {
		const struct sr_end *e = &l->ends[r->ends[low + *n]];

		if (e->thread != thread || e->sn != sn)
			break;
	}
	return r->ends + low;
}

const char *sr_links_name(const struct sr_links *l, int32_t number)
{
	for (size_t i = 0; i < l->ranks_n; i++)
		if (l->ranks[i].number == number)
			return l->ranks[i].name;
	return "?";
}

static int member_of(const struct sr_trace *t, int32_t rank)
{
	const json_t *extra = json_object_get(sr_trace_process(t, rank), "extra");
	const json_t *member = json_object_get(extra, "member");

	return json_is_integer(member) && json_integer_value(member) < SR_CLOCK_MEMBERS
		   ? (int)json_integer_value(member)
		   : -1;
}

/*
 * Two processes with one number: a daemon was replaced, or nobody of the job was left, between their starts.  What orders name it
 * is not known to be of the one or the other.
 */
static void drop_doubles(struct sr_links *l)
{
	size_t n[SR_CLOCK_MEMBERS] = {0};

	for (size_t i = 0; i < l->ranks_n; i++)
		if (l->ranks[i].member >= 0)
			n[l->ranks[i].member]++;
	for (size_t i = 0; i < l->ranks_n; i++)
		if (l->ranks[i].member >= 0 && n[l->ranks[i].member] > 1)
			l->ranks[i].member = -1;
}

int sr_links_find(struct sr_links *l, struct sr_trace *t, const struct sr_links_hooks *hooks,
		  struct sr_error *err)
{
	int ret = 0;

	*l = (struct sr_links){.ranks_n = sr_trace_ranks(t)};
	l->ranks = calloc(l->ranks_n + 1, sizeof(*l->ranks));
	if (!l->ranks)
		return sr_error_set(err, -ENOMEM, "no memory left");
	for (size_t i = 0; i < l->ranks_n; i++) {
		l->ranks[i].number = sr_trace_rank_number(t, i);
		l->ranks[i].name = sr_trace_rank_name(t, l->ranks[i].number);
		l->ranks[i].member = member_of(t, l->ranks[i].number);
	}
	drop_doubles(l);
	for (size_t i = 0; i < l->ranks_n && !ret; i++) {
		ret = read_rank(l, i, t, hooks, err);
		if (!ret && hooks && hooks->progress)
			hooks->progress(hooks->argument, i + 1, l->ranks_n);
	}
	if (!ret && pair_all(l))
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	for (size_t i = 0; i < l->ranks_n && !ret; i++)
		if (list_ends(l, i))
			ret = sr_error_set(err, -ENOMEM, "no memory left");
	if (ret)
		sr_links_free(l);
	return ret;
}

void sr_links_free(struct sr_links *l)
{
	for (size_t i = 0; l->ranks && i < l->ranks_n; i++) {
		sr_keymap_free(&l->ranks[i].lkeys);
		sr_keymap_free(&l->ranks[i].rkeys);
		sr_keymap_free(&l->ranks[i].relaxed);
		sr_keymap_free(&l->ranks[i].gids);
		free(l->ranks[i].gid);
		free(l->ranks[i].ends);
		free(l->ranks[i].regions);
		free(l->ranks[i].picked);
		free(l->ranks[i].changed);
	}
	free(l->ranks);
	free(l->datagrams);
	free(l->ends);
	*l = (struct sr_links){0};
}
