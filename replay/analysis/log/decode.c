/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/decode.h"

#include <signal.h>
#include <string.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "shim/core/codec.h"
#include "wire.gen.h"

static struct sr_cursor cursor(const uint8_t *p, size_t size)
{
	return (struct sr_cursor){.p = p, .end = p + size};
}

/* An object that may be missing, of at least this size. */
static bool get_object(struct sr_cursor *c, void *object, size_t size)
{
	struct sr_bytes v;

	if (!sr_get_u8(c))
		return false;
	v = sr_get_bytes(c);
	if (v.n < size)
		return false;
	memcpy(object, v.p, size);
	return !c->bad;
}

/* ---- queue pairs ---- */

bool sr_log_get_create_qp(const struct sr_log_call *c, struct sr_log_create_qp *v)
{
	struct sr_cursor in = cursor(c->in, c->in_size), out = cursor(c->out, c->out_size);
	struct ibv_qp_init_attr attr;
	struct ibv_qp qp;

	sr_get_u64(&in); /* the protection domain, or the context */
	/* The extended attributes begin with the same members. */
	if (sr_get_u8(&in))
		sr_get_ibv_qp_init_attr(&in, &attr);
	else
		return false;
	*v = (struct sr_log_create_qp){.type = attr.qp_type, .sig_all = attr.sq_sig_all};
	if (!c->result)
		return !in.bad;
	if (!get_object(&out, &qp, sizeof(qp)))
		return false;
	v->qp = c->result;
	v->qp_num = qp.qp_num;
	return !in.bad;
}

bool sr_log_get_modify_qp(const struct sr_log_call *c, struct sr_log_modify_qp *v)
{
	struct sr_cursor in = cursor(c->in, c->in_size);

	memset(v, 0, sizeof(*v));
	v->qp = sr_get_u64(&in);
	v->mask = sr_get_u32(&in);
	sr_get_ibv_qp_attr(&in, &v->attr);
	return !in.bad && !c->result;
}

/* ---- memory ---- */

bool sr_log_get_reg_mr(const struct sr_log_call *c, struct sr_log_reg_mr *v)
{
	struct sr_cursor in = cursor(c->in, c->in_size), out = cursor(c->out, c->out_size);
	struct ibv_mr mr;

	*v = (struct sr_log_reg_mr){0};
	sr_get_u64(&in); /* pd */
	v->addr = sr_get_u64(&in);
	v->length = sr_get_u64(&in);
	if (c->what == SR_WHAT_REG_MR_IOVA)
		v->iova = sr_get_u64(&in);
	else
		v->iova = sr_get_u32(&in) & IBV_ACCESS_ZERO_BASED ? 0 : v->addr;
	if (in.bad || !c->result || !get_object(&out, &mr, sizeof(mr)))
		return false;
	v->lkey = mr.lkey;
	v->rkey = mr.rkey;
	return true;
}

bool sr_log_get_gid(const struct sr_log_call *c, struct sr_log_gid *v)
{
	struct sr_cursor in = cursor(c->in, c->in_size), out = cursor(c->out, c->out_size);
	struct sr_bytes entry;

	sr_get_u64(&in); /* context */
	if (c->what == SR_WHAT_QUERY_GID) {
		sr_get_u8(&in); /* port */
		v->index = sr_get_u32(&in);
		if (!sr_get_u8(&out))
			return false;
		sr_get_raw(&out, v->gid, sizeof(v->gid));
		return !in.bad && !out.bad;
	}
	sr_get_u32(&in); /* port */
	v->index = sr_get_u32(&in);
	if (!sr_get_u8(&out))
		return false;
	entry = sr_get_bytes(&out);
	if (in.bad || entry.n < sizeof(v->gid))
		return false;
	memcpy(v->gid, entry.p, sizeof(v->gid)); /* its first member */
	return true;
}

/* ---- librdmacm ---- */

#define SEGMENTS 64

/* The memory that a record shows, by address. */
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

/* The other end's number, where the event is one that tells it. */
static uint32_t told_by(const struct rdma_cm_event *event)
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
		v->peer_qp_num = told_by(&event);
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
	if (told_by(&event))
		v->peer_qp_num = told_by(&event);
	return v->id != 0;
}

static const void *pointer(uint64_t address)
{
	return (const void *)(uintptr_t)address;
}

/* The identifier whose memory the results show, and where they begin to. */
bool sr_log_get_cm(const struct sr_log_call *c, struct sr_log_cm *v)
{
	struct sr_cursor in = cursor(c->in, c->in_size), out = cursor(c->out, c->out_size);
	struct ibv_qp_init_attr attr;
	struct shown s = {.n = 0};
	uint64_t first = sr_get_u64(&in), second = 0;

	*v = (struct sr_log_cm){.sig_all = -1};
	switch (c->what) {
	case SR_WHAT_CM_EVENT:
		second = sr_get_u8(&out) ? sr_get_u64(&out) : 0;
		if (!second)
			return false;
		if (sr_get_u8(&out)) { /* its kind */
			sr_get_u32(&out);
			sr_get_u32(&out);
		}
		return sr_get_u8(&out) && get_shown(&out, &s) && see_event(&s, pointer(second), v);
	case SR_WHAT_CM_CREATE_QP:
		sr_get_u64(&in); /* pd */
		if (sr_get_u8(&in)) {
			sr_get_ibv_qp_init_attr(&in, &attr);
			v->sig_all = attr.sq_sig_all != 0;
		}
		return !in.bad && get_shown(&out, &s) && see_id(&s, pointer(first), v);
	case SR_WHAT_CM_CREATE_EP:
		second = sr_get_u8(&out) ? sr_get_u64(&out) : 0;
		return second && sr_get_u8(&out) && get_shown(&out, &s) &&
		       see_id(&s, pointer(second), v);
	case SR_WHAT_CM_REQUEST:
		if (!get_shown(&out, &s)) /* the listening one */
			return false;
		s.n = 0;
		second = sr_get_u8(&out) ? sr_get_u64(&out) : 0;
		return second && sr_get_u8(&out) && get_shown(&out, &s) &&
		       see_id(&s, pointer(second), v);
	default:
		return get_shown(&out, &s) && see_id(&s, pointer(first), v);
	}
}
