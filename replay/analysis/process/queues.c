/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/process/own.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/opcodes.h"

/* Room for one more, behind the others; NULL: no memory. */
void *sr_log_push(struct ring *r, size_t bytes)
{
	if (r->used == r->room) {
		size_t room = r->room ? 2 * r->room : 16;
		char *more = malloc(room * bytes);

		if (!more)
			return NULL;
		for (size_t i = 0; i < r->used; i++)
			memcpy(more + i * bytes, sr_log_at(r, i, bytes), bytes);
		free(r->p);
		*r = (struct ring){.p = more, .used = r->used, .room = room};
	}
	return sr_log_at(r, r->used++, bytes);
}

static struct qp *add_qp(struct rank *r, uint64_t address, uint32_t qp_num, uint32_t type,
			 bool sig_all)
{
	struct qp *q = calloc(1, sizeof(*q));

	if (!q)
		return NULL;
	*q = (struct qp){.address = address,
			 .qp_num = qp_num,
			 .type = type,
			 .sig_all = sig_all,
			 .end = SR_NO_END};
	sr_send_queue_init(&q->sends);
	if (r->qps_n == r->qps_room) {
		size_t room = r->qps_room ? 2 * r->qps_room : 16;
		struct qp **more = realloc(r->qps, room * sizeof(*more));

		if (!more) {
			free(q);
			return NULL;
		}
		r->qps = more;
		r->qps_room = room;
	}
	r->qps[r->qps_n] = q;
	if (sr_keymap_put(&r->by_address, address, r->qps_n) ||
	    (qp_num && sr_keymap_put(&r->by_number, qp_num, r->qps_n))) {
		free(q);
		return NULL;
	}
	r->qps_n++;
	return q;
}

void sr_log_free_qp(struct qp *q)
{
	struct sr_send_request *r;

	while ((r = sr_send_queue_pop(&q->sends)))
		free(r);
	while ((r = q->spare)) {
		q->spare = r->next;
		free(r);
	}
	free(q->messages.p);
	for (size_t i = 0; i < q->batch_room; i++)
		free(q->batch[i].details.pieces);
	free(q->batch);
	free(q);
}

int sr_log_add_request(struct qp *q, const struct request *rq)
{
	struct request *added = (struct request *)q->spare;

	if (added)
		q->spare = added->send.next;
	else
		added = malloc(sizeof(*added));
	if (!added)
		return -ENOMEM;
	*added = *rq;
	added->send.completes_as = (uint8_t)sr_op_completes_as(rq->opcode);
	sr_send_queue_post(&q->sends, &added->send);
	return 0;
}

void sr_log_drop_request(struct qp *q, struct sr_send_request *r)
{
	r->next = q->spare;
	q->spare = r;
}

struct qp *sr_log_qp_at(const struct rank *r, uint64_t address)
{
	uint64_t at;

	return sr_keymap_get(&r->by_address, address, &at) ? r->qps[at] : NULL;
}

struct qp *sr_log_qp_at_or_new(struct rank *r, uint64_t address)
{
	struct qp *q = sr_log_qp_at(r, address);

	return q ? q : add_qp(r, address, 0, IBV_QPT_RC, false);
}

struct qp *sr_log_qp_numbered(const struct rank *r, uint32_t qp_num)
{
	uint64_t at;

	return sr_keymap_get(&r->by_number, qp_num, &at) ? r->qps[at] : NULL;
}

static const struct sr_end *end_of(const struct process *p, const struct qp *q)
{
	return q->end == SR_NO_END ? NULL : &p->links->ends[q->end];
}

/* The rank at the other end. */
size_t sr_log_peer_of(const struct process *p, const struct qp *q)
{
	const struct sr_end *e = end_of(p, q);

	return !e || e->peer == SR_NO_END ? SR_NO_RANK : p->links->ends[e->peer].rank;
}

size_t sr_log_peer_end(const struct process *p, const struct qp *q)
{
	const struct sr_end *e = end_of(p, q);

	return e ? e->peer : SR_NO_END;
}

/* The queue pair there, if its rank has come so far. */
struct qp *sr_log_other_end(const struct process *p, const struct qp *q)
{
	const struct sr_end *e = end_of(p, q);

	return !e || e->peer == SR_NO_END ? NULL : p->qp_of_end[e->peer];
}

uint32_t sr_log_link_flags(const struct process *p, const struct qp *q)
{
	const struct sr_end *e = end_of(p, q);

	return e && e->ambiguous ? SR_PLAN_AMBIGUOUS : 0;
}

uint64_t sr_log_address_of(const struct sr_keymap *keys, uint32_t key, uint64_t iova)
{
	uint64_t difference;

	return sr_keymap_get(keys, key, &difference) ? iova - difference : iova;
}

static int connect_ends(struct process *p, size_t rank, const struct sr_log_call *c)
{
	struct rank *r = &p->ranks[rank];
	size_t n;
	const size_t *ends = sr_links_at(p->links, rank, c->thread, c->sn, &n);

	for (size_t i = 0; i < n; i++) {
		const struct sr_end *e = &p->links->ends[ends[i]];
		struct qp *q = sr_log_qp_at(r, e->qp);

		/* librdmacm made it, or its memory was used again. */
		if (!q || q->qp_num != e->qp_num)
			q = add_qp(r, e->qp, e->qp_num, e->type, q ? q->sig_all : false);
		if (!q)
			return -ENOMEM;
		q->end = ends[i];
		p->qp_of_end[ends[i]] = q;
	}
	return 0;
}

static void reset(struct qp *q)
{
	sr_send_queue_reset(&q->sends);
	q->broken = false;
}

static int report_closed(struct process *p, size_t rank, uint64_t queue, bool is_over)
{
	const struct qp *q = sr_log_qp_at(&p->ranks[rank], queue);

	if (!queue || !p->hooks->closed)
		return 0;
	return p->hooks->closed(p->hooks->argument, &(struct sr_closed){.rank = rank,
									.at = *sr_knowledge_now(p->knowledge, rank),
									.queue = queue,
									.end = q ? q->end : SR_NO_END,
									.is_over = is_over});
}

/* librdmacm makes and destroys queue pairs by identifiers. */
static int close_of_cm(struct process *p, size_t rank, const struct sr_log_call *c)
{
	uint64_t queue = 0, id = sr_log_destroyed(c);

	if (!id || !sr_keymap_get(&p->ranks[rank].cm_qps, id, &queue))
		return 0;
	return report_closed(p, rank, queue, c->what == SR_WHAT_CM_DESTROY);
}

static int change_state(struct process *p, size_t rank, const struct sr_log_modify_qp *m)
{
	struct qp *q = sr_log_qp_at(&p->ranks[rank], m->qp);
	const bool is_reset = m->attr.qp_state == IBV_QPS_RESET;

	if (!q || !(m->mask & IBV_QP_STATE) || (!is_reset && m->attr.qp_state != IBV_QPS_ERR))
		return 0;
	if (is_reset)
		reset(q);
	return report_closed(p, rank, m->qp, is_reset);
}

static int make_by_cm(struct rank *r, const struct sr_log_call *c)
{
	struct sr_log_cm cm;

	if (!sr_log_get_cm(c, &cm) || !cm.qp)
		return 0;
	if (sr_keymap_put(&r->cm_qps, cm.id, cm.qp))
		return -ENOMEM;
	if (c->what != SR_WHAT_CM_CREATE_QP && c->what != SR_WHAT_CM_CREATE_QP_EX)
		return 0;
	return add_qp(r, cm.qp, cm.qp_num, cm.qp_type, cm.sig_all > 0) ? 0 : -ENOMEM;
}

static int report_annotation(struct process *p, size_t rank, const struct sr_log_call *c)
{
	struct sr_annotated a = {.rank = rank, .at = *sr_knowledge_now(p->knowledge, rank)};

	if (!p->hooks->annotated || !sr_log_get_annotation(c, &a.a))
		return 0;
	return p->hooks->annotated(p->hooks->argument, &a);
}

static void note_in_order(const struct rank *r, uint64_t queue)
{
	struct qp *q = queue ? sr_log_qp_at(r, queue) : NULL;

	if (q)
		q->is_in_order = true;
}

/* False: the call tells nothing of a connection. */
static bool get_cm_act(const struct sr_log_call *c, struct sr_cm_act *a)
{
	struct sr_log_cm cm;

	if (c->what == SR_WHAT_CM_DISCONNECT) {
		a->id = sr_log_destroyed(c);
		a->what = SR_CM_DISCONNECTS;
		return a->id;
	}
	if ((c->what != SR_WHAT_CM_CONNECT && c->what != SR_WHAT_CM_REQUEST && c->what != SR_WHAT_CM_EVENT) || !sr_log_get_cm(c, &cm) || !cm.id)
		return false;
	a->id = cm.id;
	a->what = SR_CM_CONNECTS;
	if (c->what == SR_WHAT_CM_CONNECT)
		return !c->result;
	if (c->what == SR_WHAT_CM_REQUEST || cm.event == RDMA_CM_EVENT_CONNECT_REQUEST)
		a->what = SR_CM_REQUESTED;
	else if (cm.event == RDMA_CM_EVENT_ESTABLISHED || cm.event == RDMA_CM_EVENT_CONNECT_RESPONSE)
		a->what = SR_CM_ESTABLISHED;
	else if (cm.event == RDMA_CM_EVENT_DISCONNECTED)
		a->what = SR_CM_DISCONNECTED;
	return a->what != SR_CM_CONNECTS;
}

/* Once the ends are known that the call has connected. */
static int report_cm(struct process *p, size_t rank, const struct sr_log_call *c)
{
	struct sr_cm_act a = {.rank = rank, .end = SR_NO_END};
	const struct qp *q;
	uint64_t queue;

	if (!p->hooks->cm || !get_cm_act(c, &a))
		return 0;
	a.at = *sr_knowledge_now(p->knowledge, rank);
	q = sr_keymap_get(&p->ranks[rank].cm_qps, a.id, &queue) ? sr_log_qp_at(&p->ranks[rank], queue) : NULL;
	if (q && a.what != SR_CM_REQUESTED)
		a.end = q->end;
	return p->hooks->cm(p->hooks->argument, &a);
}

int sr_log_control(struct process *p, size_t rank, const struct sr_log_call *c)
{
	struct rank *r = &p->ranks[rank];
	struct sr_log_create_qp made;
	struct sr_log_modify_qp m;
	int err = 0;

	switch (c->what) {
	case SR_WHAT_CREATE_QP:
	case SR_WHAT_CREATE_QP_EX:
		if (sr_log_get_create_qp(c, &made) && made.qp &&
		    !add_qp(r, made.qp, made.qp_num, made.type, made.sig_all))
			err = -ENOMEM;
		break;
	case SR_WHAT_CM_CREATE_QP:
	case SR_WHAT_CM_CREATE_QP_EX:
	case SR_WHAT_CM_CREATE_EP:
	case SR_WHAT_CM_REQUEST:
	case SR_WHAT_CM_CONNECT:
		err = make_by_cm(r, c);
		break;
	case SR_WHAT_ANNOTATION:
		err = report_annotation(p, rank, c);
		break;
	case SR_WHAT_QUERY_IN_ORDER:
		note_in_order(r, sr_log_get_in_order(c));
		break;
	case SR_WHAT_MODIFY_QP:
		if (sr_log_get_modify_qp(c, &m))
			err = change_state(p, rank, &m);
		break;
	case SR_WHAT_DESTROY_QP:
		err = report_closed(p, rank, sr_log_destroyed(c), true);
		break;
	case SR_WHAT_CM_DISCONNECT:
	case SR_WHAT_CM_DESTROY:
		err = close_of_cm(p, rank, c);
		break;
	case SR_WHAT_REG_MR:
	case SR_WHAT_REG_MR_IOVA:
	case SR_WHAT_REREG_MR:
	case SR_WHAT_DEREG_MR:
		err = sr_log_registration(p, rank, c);
		break;
	default:
		break;
	}
	if (!err)
		err = connect_ends(p, rank, c);
	return err ? err : report_cm(p, rank, c);
}
