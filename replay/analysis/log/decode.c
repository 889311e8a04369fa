/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/access/access.h"
#include "logd/trace/left_out.h"
#include "replay/analysis/log/decode.h"

#include <string.h>

#include "replay/analysis/log/wire.h"
#include "shim/core/call.h"

static struct sr_cursor cursor(const uint8_t *p, size_t size)
{
	return (struct sr_cursor){.p = p, .end = p + size};
}

static bool get_object(struct sr_bytes recorded, void *object, size_t size)
{
	if (recorded.n < size)
		return false;
	memcpy(object, recorded.p, size);
	return true;
}

static bool get_attributes(const struct sr_log_call *c, struct sr_log_create_qp *v)
{
	struct sr_cursor at = cursor(c->in, c->in_size);
	struct sr_in_ibv_create_qp plain;
	struct sr_in_create_qp_ex extended;

	if (c->what == SR_WHAT_CREATE_QP_EX) {
		sr_get_in_create_qp_ex(&at, &extended);
		*v = (struct sr_log_create_qp){.type = extended.attr.qp_type,
					       .sig_all = extended.attr.sq_sig_all};
		return extended.has_attr && !at.bad;
	}
	sr_get_in_ibv_create_qp(&at, &plain);
	*v =
	    (struct sr_log_create_qp){.type = plain.attr.qp_type, .sig_all = plain.attr.sq_sig_all};
	return plain.has_attr && !at.bad;
}

bool sr_log_get_create_qp(const struct sr_log_call *c, struct sr_log_create_qp *v)
{
	struct sr_cursor at = cursor(c->out, c->out_size);
	struct sr_out_ibv_create_qp out;
	struct ibv_qp qp;

	if (!get_attributes(c, v))
		return false;
	if (!c->result)
		return true;
	/* The object comes first in the results of both calls. */
	sr_get_out_ibv_create_qp(&at, &out);
	if (!get_object(out.object, &qp, sizeof(qp)))
		return false;
	v->qp = c->result;
	v->qp_num = qp.qp_num;
	return true;
}

bool sr_log_get_modify_qp(const struct sr_log_call *c, struct sr_log_modify_qp *v)
{
	struct sr_cursor at = cursor(c->in, c->in_size);
	struct sr_in_ibv_modify_qp in;

	sr_get_in_ibv_modify_qp(&at, &in);
	*v =
	    (struct sr_log_modify_qp){.qp = in.qp, .mask = (uint32_t)in.attr_mask, .attr = in.attr};
	return !at.bad && !c->result;
}

static bool get_registration(const struct sr_log_call *c, struct sr_log_reg_mr *v)
{
	struct sr_cursor at = cursor(c->in, c->in_size);
	struct sr_in_ibv_reg_mr plain;
	struct sr_in_ibv_reg_mr_iova elsewhere;

	if (c->what == SR_WHAT_REG_MR_IOVA) {
		sr_get_in_ibv_reg_mr_iova(&at, &elsewhere);
		*v = (struct sr_log_reg_mr){
		    .addr = elsewhere.addr,
		    .length = elsewhere.length,
		    .iova = elsewhere.iova,
		    .is_relaxed = (uint64_t)elsewhere.access & IBV_ACCESS_RELAXED_ORDERING};
		return !at.bad;
	}
	sr_get_in_ibv_reg_mr(&at, &plain);
	*v = (struct sr_log_reg_mr){.addr = plain.addr,
				    .length = plain.length,
				    .iova = plain.access & IBV_ACCESS_ZERO_BASED ? 0 : plain.addr,
				    .is_relaxed = (uint64_t)plain.access & IBV_ACCESS_RELAXED_ORDERING};
	return !at.bad;
}

bool sr_log_get_reg_mr(const struct sr_log_call *c, struct sr_log_reg_mr *v)
{
	struct sr_cursor at = cursor(c->out, c->out_size);
	struct sr_out_ibv_reg_mr out;
	struct ibv_mr mr;

	if (!get_registration(c, v) || !c->result)
		return false;
	/* The same results as those of ibv_reg_mr_iova. */
	sr_get_out_ibv_reg_mr(&at, &out);
	if (!get_object(out.object, &mr, sizeof(mr)))
		return false;
	v->lkey = mr.lkey;
	v->rkey = mr.rkey;
	return true;
}

bool sr_log_get_rereg_mr(const struct sr_log_call *c, uint64_t *region, struct sr_log_reg_mr *v)
{
	struct sr_cursor in_at = cursor(c->in, c->in_size), out_at = cursor(c->out, c->out_size);
	struct sr_in_ibv_rereg_mr in;
	struct sr_out_ibv_rereg_mr out;
	struct ibv_mr mr;

	sr_get_in_ibv_rereg_mr(&in_at, &in);
	sr_get_out_ibv_rereg_mr(&out_at, &out);
	if (in_at.bad || c->result || !get_object(out.mr, &mr, sizeof(mr)))
		return false;
	*region = in.mr;
	*v = (struct sr_log_reg_mr){.lkey = mr.lkey, .rkey = mr.rkey};
	if (in.flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		v->addr = v->iova = in.addr;
		v->length = in.length;
	}
	return true;
}

uint64_t sr_log_get_in_order(const struct sr_log_call *c)
{
	struct sr_cursor at = cursor(c->in, c->in_size);
	struct sr_in_ibv_query_qp_data_in_order in;

	sr_get_in_ibv_query_qp_data_in_order(&at, &in);
	/* 1, without IBV_QUERY_QP_DATA_IN_ORDER_RETURN_CAPS, or IBV_QUERY_QP_DATA_IN_ORDER_WHOLE_MSG: the same bit. */
	if (at.bad || !(c->result & 1))
		return 0;
	return in.op == IBV_WR_RDMA_WRITE || in.op == IBV_WR_RDMA_WRITE_WITH_IMM ? in.qp : 0;
}

bool sr_log_get_annotation(const struct sr_log_call *c, struct sr_log_annotation *v)
{
	struct sr_cursor at = cursor(c->in, c->in_size);
	struct sr_in_sreplay_on_annotation in;

	sr_get_in_sreplay_on_annotation(&at, &in);
	*v = (struct sr_log_annotation){.what = in.what, .name = in.name, .bytes = in.bytes};
	return !at.bad;
}

/* They have one argument. */
uint64_t sr_log_destroyed(const struct sr_log_call *c)
{
	struct sr_cursor at = cursor(c->in, c->in_size);
	struct sr_in_ibv_dereg_mr in;

	sr_get_in_ibv_dereg_mr(&at, &in);
	return at.bad || c->result ? 0 : in.mr;
}

static bool get_gid(const struct sr_log_call *c, struct sr_log_gid *v)
{
	struct sr_cursor in_at = cursor(c->in, c->in_size), out_at = cursor(c->out, c->out_size);
	struct sr_in_ibv_query_gid in;
	struct sr_out_ibv_query_gid out;

	sr_get_in_ibv_query_gid(&in_at, &in);
	sr_get_out_ibv_query_gid(&out_at, &out);
	v->index = (uint32_t)in.index;
	memcpy(v->gid, out.gid, sizeof(v->gid));
	return out.has_gid && !in_at.bad && !out_at.bad;
}

static bool get_gid_entry(const struct sr_log_call *c, struct sr_log_gid *v)
{
	struct sr_cursor in_at = cursor(c->in, c->in_size), out_at = cursor(c->out, c->out_size);
	struct sr_in__ibv_query_gid_ex in;
	struct sr_out__ibv_query_gid_ex out;

	sr_get_in__ibv_query_gid_ex(&in_at, &in);
	sr_get_out__ibv_query_gid_ex(&out_at, &out);
	v->index = in.gid_index;
	if (in_at.bad || out.entry.n < sizeof(v->gid))
		return false;
	memcpy(v->gid, out.entry.p, sizeof(v->gid)); /* struct ibv_gid_entry begins with it */
	return true;
}

bool sr_log_get_gid(const struct sr_log_call *c, struct sr_log_gid *v)
{
	return c->what == SR_WHAT_QUERY_GID ? get_gid(c, v) : get_gid_entry(c, v);
}

#define SEGMENTS 64

struct shown {
	struct sr_wire_segment segments[SEGMENTS];
	uint32_t n;
};

static const void *at(const struct shown *s, const void *address, size_t size)
{
	for (uint32_t i = 0; address && i < s->n; i++)
		if (s->segments[i].addr == (uintptr_t)address && s->segments[i].data.n >= size)
			return s->segments[i].data.p;
	return NULL;
}

static bool get_shown(struct sr_cursor *c, struct shown *s)
{
	struct sr_wire_opened opened;
	uint32_t n;

	for (n = sr_get_u32(c); n && !c->bad; n--)
		sr_get_opened_fields(c, &opened);
	for (n = sr_get_u32(c); n && !c->bad; n--) {
		struct sr_wire_segment v;

		sr_get_segment_fields(c, &v);
		if (s->n < SEGMENTS)
			s->segments[s->n++] = v;
	}
	return !c->bad;
}

/* The other end's number, if the event has it; 0. */
static uint32_t peer_number_in(const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
		return event->param.conn.qp_num;
	default:
		return 0;
	}
}

static bool see_id(const struct shown *s, const void *address, struct sr_log_cm *v)
{
	const void *p = at(s, address, sizeof(struct rdma_cm_id));
	struct rdma_cm_event event;
	struct rdma_cm_id id;
	struct ibv_qp qp;

	if (!p)
		return false;
	memcpy(&id, p, sizeof(id));
	v->id = (uintptr_t)address;
	p = at(s, id.qp, sizeof(qp));
	if (p) {
		memcpy(&qp, p, sizeof(qp));
		v->qp = (uintptr_t)id.qp;
		v->qp_num = qp.qp_num;
		v->qp_type = qp.qp_type;
	}
	p = at(s, id.event, sizeof(event));
	if (p) {
		memcpy(&event, p, sizeof(event));
		v->peer_qp_num = peer_number_in(&event);
	}
	return true;
}

static bool see_event(const struct shown *s, const void *address, struct sr_log_cm *v)
{
	const void *p = at(s, address, sizeof(struct rdma_cm_event));
	struct rdma_cm_event event;

	if (!p)
		return false;
	memcpy(&event, p, sizeof(event));
	see_id(s, event.id, v);
	v->event = (int)event.event;
	if (peer_number_in(&event))
		v->peer_qp_num = peer_number_in(&event);
	return v->id != 0;
}

static const void *pointer(uint64_t address)
{
	return (const void *)(uintptr_t)address;
}

static bool see_returned_event(struct sr_cursor *c, struct shown *s, struct sr_log_cm *v)
{
	struct sr_out_rdma_get_cm_event out;

	sr_get_out_rdma_get_cm_event(c, &out);
	return out.event && out.has_reached && get_shown(c, s) &&
	       see_event(s, pointer(out.event), v);
}

/* The identifier that a call made, of whichever call: as those that rdma_create_ep makes. */
static bool see_made_id(struct sr_cursor *c, struct shown *s, struct sr_log_cm *v)
{
	struct sr_out_rdma_create_ep out;

	sr_get_out_rdma_create_ep(c, &out);
	return out.id && out.has_reached && get_shown(c, s) && see_id(s, pointer(out.id), v);
}

static bool see_given_id(const struct sr_log_call *c, struct sr_cursor *out, struct shown *s,
			 struct sr_log_cm *v)
{
	struct sr_cursor at = cursor(c->in, c->in_size);
	struct sr_in_rdma_connect in;

	sr_get_in_rdma_connect(&at, &in);
	return get_shown(out, s) && see_id(s, pointer(in.id), v);
}

static bool see_created_qp(const struct sr_log_call *c, struct sr_cursor *out, struct shown *s,
			   struct sr_log_cm *v)
{
	struct sr_cursor at = cursor(c->in, c->in_size);
	struct sr_in_rdma_create_qp plain;
	struct sr_in_rdma_create_qp_ex extended;
	uint64_t id;

	if (c->what == SR_WHAT_CM_CREATE_QP_EX) {
		sr_get_in_rdma_create_qp_ex(&at, &extended);
		id = extended.id;
		if (extended.has_attr)
			v->sig_all = extended.attr.sq_sig_all != 0;
	} else {
		sr_get_in_rdma_create_qp(&at, &plain);
		id = plain.id;
		if (plain.has_attr)
			v->sig_all = plain.attr.sq_sig_all != 0;
	}
	return !at.bad && get_shown(out, s) && see_id(s, pointer(id), v);
}

bool sr_log_get_cm(const struct sr_log_call *c, struct sr_log_cm *v)
{
	struct sr_cursor out = cursor(c->out, c->out_size);
	struct shown listening = {.n = 0}, s = {.n = 0};

	*v = (struct sr_log_cm){.sig_all = -1, .event = -1};
	switch (c->what) {
	case SR_WHAT_CM_EVENT:
		return see_returned_event(&out, &s, v);
	case SR_WHAT_CM_CREATE_QP:
	case SR_WHAT_CM_CREATE_QP_EX:
		return see_created_qp(c, &out, &s, v);
	case SR_WHAT_CM_CREATE_EP:
		return see_made_id(&out, &s, v);
	case SR_WHAT_CM_REQUEST:
		return get_shown(&out, &listening) && see_made_id(&out, &s, v);
	default:
		return see_given_id(c, &out, &s, v);
	}
}

static void pass_completion(struct sr_cursor *c, bool extended)
{
	struct sr_completion x;
	struct ibv_wc wc;

	if (extended)
		sr_get_completion(c, &x);
	else
		sr_get_ibv_wc(c, &wc);
}

bool sr_log_get_polled(const struct sr_log_call *c, struct sr_log_polled *v)
{
	struct sr_cursor out = cursor(c->out, c->out_size);

	*v = (struct sr_log_polled){.extended = c->what == SR_WHAT_POLL_EX};
	if (!sr_get_u8(&out))
		return false;
	v->n = v->extended ? 1 : sr_get_u32(&out);
	v->completions = out;
	for (size_t i = 0; i < v->n && !out.bad; i++)
		pass_completion(&out, v->extended);
	if (!out.bad && sr_get_u8(&out))
		v->segments_n = sr_get_u32(&out);
	v->segments = out;
	return !out.bad;
}

/* A call's arguments and results as they are in the trace. */
static bool find_parts(const struct sr_entry *e, struct sr_log_call *call)
{
	const uint8_t *payload = e->payload;
	struct sr_call_head head;
	size_t fixed;

	if (e->size < sizeof(head))
		return false;
	memcpy(&head, payload, sizeof(head));
	fixed = sizeof(head) + head.in_size + head.orders * sizeof(uint64_t);
	if (fixed > e->size)
		return false;
	call->in = payload + sizeof(head);
	call->in_size = head.in_size;
	call->out = call->in + head.in_size;
	call->out_size = e->size - fixed;
	return true;
}

bool sr_log_get_polled_of(const struct sr_log_kinds *k, const struct sr_entry *e, struct sr_log_polled *v)
{
	struct sr_log_call call = {.what = sr_log_what(k, e->kind)};

	return (call.what == SR_WHAT_POLL || call.what == SR_WHAT_POLL_EX) && find_parts(e, &call) && sr_log_get_polled(&call, v);
}

bool sr_log_get_accesses_of(const struct sr_log_kinds *k, const struct sr_entry *e, struct sr_log_accesses *v)
{
	struct sr_in_sreplay_on_accesses in;
	struct sr_out_sreplay_on_accesses out;
	struct sr_cursor at, results;
	struct sr_log_call call;

	if (sr_log_what(k, e->kind) != SR_WHAT_ACCESSES || !find_parts(e, &call))
		return false;
	at = cursor(call.in, call.in_size);
	results = cursor(call.out, call.out_size);
	sr_get_in_sreplay_on_accesses(&at, &in);
	sr_get_out_sreplay_on_accesses(&results, &out);
	*v = (struct sr_log_accesses){in.n, in.list.p, out.faults.p};
	return !at.bad && !results.bad && in.list.n == in.n * sizeof(struct sr_hooked_access) && out.faults.n == in.n * sizeof(uint32_t);
}

bool sr_log_is_left_out(uint64_t address, const void *data, size_t size, uint32_t *length)
{
	struct sr_left_out l;

	if (!(address & SR_LEFT_OUT) || !sr_left_out_get(&l, data, size))
		return false;
	*length = l.length;
	return true;
}
