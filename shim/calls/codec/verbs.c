/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs.c: work requests, completions and devices. */
#include "logd/base/page.h"
#include "logd/base/checksum.h"
#include "shim/calls/codec/custom.h"
#include "shim/memory/heap.h"
#include "shim/verbs/objects.h"
#include "logd/base/opcodes.h"
#include "shim/verbs/ops.h"
#include "shim/kernel/readable.h"
#include "shim/core/thread.h"
#include "shim/verbs/regions.h"

/* ---------------------------------------------------------- work requests */

/* No device's lists are as long. */
#define SGES_MAX     4096
#define SGES_USUAL   8

/* No device takes more inline; what is refused for its length need not be there. */
#define INLINE_USUAL 1024

static bool is_on_one_page(const void *begin, const void *end)
{
	return (uintptr_t)begin / PAGE == ((uintptr_t)end - 1) / PAGE;
}

/*
 * A provider refuses a list that is too long for the queue by its length alone:
 * what was taken from an uninitialised field must not lead the recorder anywhere.
 */
static uint32_t list_length(const struct ibv_sge *list, int n)
{
	if (!list || n <= 0 || n > SGES_MAX)
		return 0;
	if (is_on_one_page(list, list + n) || sr_is_readable(list, (size_t)n * sizeof(*list)))
		return (uint32_t)n;
	return 0;
}

/* Inline data is read by the CPU, whatever the key. */
static const void *inline_data(const struct ibv_sge *sge)
{
	const void *p = (void *)(uintptr_t)sge->addr;

	return sge->length <= INLINE_USUAL || sr_is_readable(p, sge->length) ? p : NULL;
}

/* Of a request's list, which is seldom longer than `room`. */
static const struct ibv_sge *see_list(const struct ibv_sge *list, uint32_t n, struct ibv_sge room[SGES_USUAL])
{
	return n && n <= SGES_USUAL ? sr_regions_see(list, room, n * sizeof(*list)) : list;
}

static uint64_t checksum_of(const struct ibv_qp *qp, const struct ibv_send_wr *wr, const struct ibv_sge *list,
			    uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct ibv_sge *sge = &list[i];
		const void *p = wr->send_flags & IBV_SEND_INLINE
				    ? inline_data(sge)
				    : sr_mr_memory(qp->context, sge->lkey, sge->addr, sge->length);

		if (p && sge->length)
			sum = sr_checksum(sr_regions_sent(p, sge->length), sge->length, sum);
	}
	return sum;
}

static void put_send_wr(struct sr_buf *b, const struct ibv_send_wr *wr, const struct ibv_qp *qp)
{
	const unsigned does = sr_op(wr->opcode);
	struct ibv_sge room[SGES_USUAL];
	struct sr_wire_send_wr v = {
	    .wr_id = wr->wr_id,
	    .opcode = wr->opcode,
	    .send_flags = wr->send_flags,
	    .sg_list_n = list_length(wr->sg_list, wr->num_sge),
	};

	v.sg_list = see_list(wr->sg_list, v.sg_list_n, room);

	if (does & SR_OP_ATOMIC) {
		v.remote_addr = wr->wr.atomic.remote_addr;
		v.rkey = wr->wr.atomic.rkey;
		v.compare_add = wr->wr.atomic.compare_add;
		v.swap = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? wr->wr.atomic.swap : 0;
	} else if (does & SR_OP_REMOTE) {
		v.remote_addr = wr->wr.rdma.remote_addr;
		v.rkey = wr->wr.rdma.rkey;
	}
	if (does & SR_OP_IMMEDIATE)
		v.imm_data = wr->imm_data;
	if (qp->qp_type == IBV_QPT_UD) {
		v.ah = (uintptr_t)wr->wr.ud.ah;
		v.remote_qpn = wr->wr.ud.remote_qpn;
		v.remote_qkey = wr->wr.ud.remote_qkey;
	}
	if (does & SR_OP_GATHERS)
		v.checksum = checksum_of(qp, wr, v.sg_list, v.sg_list_n);
	sr_put_send_wr_fields(b, &v);
}

/* The length of a list, in front of it, when it is known. */
static void put_length(struct sr_buf *b, size_t at, uint32_t n)
{
	if (b->len >= at + sizeof(n))
		__builtin_memcpy(b->p + at, &n, sizeof(n));
}

void sr_put_send_wr_list(struct sr_buf *b, const struct ibv_send_wr *wr, const struct ibv_qp *qp)
{
	struct ibv_send_wr room;
	const size_t at = b->len;
	uint32_t n = 0;

	sr_put_u32(b, n);
	for (; wr; wr = wr->next, n++) {
		wr = sr_regions_see(wr, &room, sizeof(room));
		put_send_wr(b, wr, qp);
	}
	put_length(b, at, n);
}

void sr_put_recv_wr_list(struct sr_buf *b, const struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr room;
	struct ibv_sge list[SGES_USUAL];
	const size_t at = b->len;
	uint32_t n = 0;

	sr_put_u32(b, n);
	for (; wr; wr = wr->next, n++) {
		struct sr_wire_recv_wr v;

		wr = sr_regions_see(wr, &room, sizeof(room));
		v.wr_id = wr->wr_id;
		v.sg_list_n = list_length(wr->sg_list, wr->num_sge);
		v.sg_list = see_list(wr->sg_list, v.sg_list_n, list);
		sr_put_recv_wr_fields(b, &v);
	}
	put_length(b, at, n);
}

void sr_put_sge_array(struct sr_buf *b, const struct ibv_sge *sge, size_t n)
{
	uint32_t there = n > SGES_MAX ? 0 : list_length(sge, (int)n);

	sr_put_u32(b, there);
	for (uint32_t i = 0; i < there; i++)
		sr_put_ibv_sge(b, &sge[i]);
}

/* A chain's member as its number; a provider that names none is taken to mean the first. */
void sr_put_bad_send_wr(struct sr_buf *b, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	uint32_t n = 0;

	for (; wr && wr != *bad_wr; wr = wr->next)
		n++;
	sr_put_u32(b, wr ? n : 0);
}

void sr_deliver_bad_send_wr(struct sr_cursor *c, struct ibv_send_wr *wr,
			    struct ibv_send_wr **bad_wr)
{
	for (uint32_t n = sr_get_u32(c); wr && n; n--)
		wr = wr->next;
	*bad_wr = wr;
}

void sr_put_bad_recv_wr(struct sr_buf *b, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
	uint32_t n = 0;

	for (; wr && wr != *bad_wr; wr = wr->next)
		n++;
	sr_put_u32(b, wr ? n : 0);
}

void sr_deliver_bad_recv_wr(struct sr_cursor *c, struct ibv_recv_wr *wr,
			    struct ibv_recv_wr **bad_wr)
{
	for (uint32_t n = sr_get_u32(c); wr && n; n--)
		wr = wr->next;
	*bad_wr = wr;
}

/* ------------------------------------------------------------ completions */

void sr_put_wc_array(struct sr_buf *b, const struct ibv_wc *wc, int n)
{
	sr_put_u32(b, (uint32_t)n);
	for (int i = 0; i < n; i++)
		sr_put_ibv_wc(b, &wc[i]);
}

void sr_deliver_wc_array(struct sr_cursor *c, struct ibv_wc *wc, int n)
{
	if (sr_get_u32(c) != (uint32_t)n) {
		c->bad = true;
		return;
	}
	for (int i = 0; i < n; i++)
		sr_get_ibv_wc(c, &wc[i]);
}

static void put_arrived(struct sr_buf *b, struct sr_arrived *arrived)
{
	sr_put_u64(b, (uintptr_t)arrived->addr);
	if (arrived->length < SR_GATHER_MIN) {
		char near[SR_GATHER_MIN];
		bool copied = sr_regions_is_near(arrived->addr);

		if (copied)
			sr_exposed_copy(arrived->addr, near, arrived->length);
		arrived->at = 0;
		sr_put_bytes(b, copied ? near : arrived->addr, arrived->length);
		return;
	}
	sr_put_u32(b, arrived->length);
	arrived->at = (uint32_t)b->len;
	sr_self.gathered += arrived->length;
}

/* Struct segment of calls.def, with the longer ones left to the engine. */
void sr_put_arrived(struct sr_buf *b, int n)
{
	struct sr_thread *t = &sr_self;

	sr_put_u32(b, t->arrived_count);
	for (uint32_t i = 0; i < t->arrived_count; i++)
		put_arrived(b, &t->arrived[i]);
}

void sr_deliver_arrived(struct sr_cursor *c, int n)
{
	for (uint32_t left = sr_get_u32(c); left && !c->bad; left--) {
		struct sr_wire_segment v;

		sr_get_segment_fields(c, &v);
		if (!c->bad)
			memcpy((void *)(uintptr_t)v.addr, v.data.p, v.data.n);
	}
}

/* ------------------------------------------------------------ queue pairs */

static struct ibv_ah_attr without_leftovers(const struct ibv_ah_attr *attr)
{
	struct ibv_ah_attr given = *attr;

	if (!attr->is_global)
		given.grh = (struct ibv_global_route){0};
	return given;
}

void sr_put_address_vector(struct sr_buf *b, const struct ibv_ah_attr *attr)
{
	struct ibv_ah_attr given = without_leftovers(attr);

	sr_put_ibv_ah_attr(b, &given);
}

/*
 * With IPv4 (RoCE v2) the header lies in the second half, and there counts what
 * an answer goes by: rdma-core looks at no more unless the first half seems to be
 * IPv6.  Its identification is another one in each packet, and the first half is
 * not written: a buffer that several receives share has them changing.
 */
void sr_put_grh(struct sr_buf *b, const struct ibv_grh *grh)
{
	const uint8_t *bytes = (const uint8_t *)grh, *ip = bytes + 20;
	uint8_t answered[10] = {ip[1], ip[8]}; /* type of service, time to live */

	if (bytes[0] >> 4 == 6 || ip[0] >> 4 != 4) {
		sr_put_bytes(b, bytes, sizeof(*grh));
		return;
	}
	memcpy(answered + 2, ip + 12, 8); /* source and destination */
	sr_put_bytes(b, answered, sizeof(answered));
}

void sr_put_qp_attr_masked(struct sr_buf *b, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr given = {};

	/* The rest of the struct is whatever lay on the program's stack. */
#define GIVE(bit, field)                                                                           \
	if (mask & (bit))                                                                          \
	given.field = attr->field
	GIVE(IBV_QP_STATE, qp_state);
	GIVE(IBV_QP_CUR_STATE, cur_qp_state);
	GIVE(IBV_QP_EN_SQD_ASYNC_NOTIFY, en_sqd_async_notify);
	GIVE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	GIVE(IBV_QP_PKEY_INDEX, pkey_index);
	GIVE(IBV_QP_PORT, port_num);
	GIVE(IBV_QP_QKEY, qkey);
	GIVE(IBV_QP_AV, ah_attr);
	GIVE(IBV_QP_PATH_MTU, path_mtu);
	GIVE(IBV_QP_TIMEOUT, timeout);
	GIVE(IBV_QP_RETRY_CNT, retry_cnt);
	GIVE(IBV_QP_RNR_RETRY, rnr_retry);
	GIVE(IBV_QP_RQ_PSN, rq_psn);
	GIVE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	GIVE(IBV_QP_ALT_PATH, alt_ah_attr);
	GIVE(IBV_QP_ALT_PATH, alt_pkey_index);
	GIVE(IBV_QP_ALT_PATH, alt_port_num);
	GIVE(IBV_QP_ALT_PATH, alt_timeout);
	GIVE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	GIVE(IBV_QP_SQ_PSN, sq_psn);
	GIVE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	GIVE(IBV_QP_PATH_MIG_STATE, path_mig_state);
	GIVE(IBV_QP_CAP, cap);
	GIVE(IBV_QP_DEST_QPN, dest_qp_num);
	GIVE(IBV_QP_RATE_LIMIT, rate_limit);
#undef GIVE
	given.ah_attr = without_leftovers(&given.ah_attr);
	given.alt_ah_attr = without_leftovers(&given.alt_ah_attr);
	sr_put_ibv_qp_attr(b, &given);
}

void sr_put_qp_ex(struct sr_buf *b, struct ibv_qp_ex *ex)
{
	struct sr_wire_qp_ex v;

	sr_put_u8(b, ex != NULL);
	if (!ex)
		return;
	v = (struct sr_wire_qp_ex){
	    .comp_mask = ex->comp_mask,
	    .wr_id = ex->wr_id,
	    .wr_flags = ex->wr_flags,
	    .ops = sr_ops_present(ex, SR_SOURCE_QP),
	};
	sr_put_qp_ex_fields(b, &v);
}

void sr_deliver_qp_ex(struct sr_cursor *c, struct ibv_qp_ex *ex)
{
	struct sr_wire_qp_ex v;

	if (!sr_get_u8(c))
		return;
	sr_get_qp_ex_fields(c, &v);
	if (!sr_heap_in_library_arena(ex, sizeof(*ex))) {
		c->bad = true;
		return;
	}
	/* qp_base is there already, from the call that made the queue pair. */
	ex->comp_mask = v.comp_mask;
	ex->wr_id = v.wr_id;
	ex->wr_flags = v.wr_flags;
	sr_ops_install(ex, SR_SOURCE_QP, v.ops);
}

void sr_put_ops(struct sr_buf *b, const void *object, enum sr_source source)
{
	sr_put_u64(b, sr_ops_present(object, source));
}

void sr_deliver_ops(struct sr_cursor *c, void *object, enum sr_source source)
{
	uint64_t set = sr_get_u64(c);

	if (!c->bad && object)
		sr_ops_install(object, source, set);
}

/* ---------------------------------------------------------------- devices */

static struct sr_bytes text_of(const char *s, size_t room)
{
	return (struct sr_bytes){s, (uint32_t)strnlen(s, room)};
}

struct sr_wire_device sr_wire_of_device(const struct ibv_device *device)
{
	return (struct sr_wire_device){
	    .address = (uintptr_t)device,
	    .node_type = device->node_type,
	    .transport_type = device->transport_type,
	    .name = text_of(device->name, sizeof(device->name)),
	    .dev_name = text_of(device->dev_name, sizeof(device->dev_name)),
	    .dev_path = text_of(device->dev_path, sizeof(device->dev_path)),
	    .ibdev_path = text_of(device->ibdev_path, sizeof(device->ibdev_path)),
	};
}

static void place_text(struct sr_cursor *c, char *to, size_t room, struct sr_bytes v)
{
	if (v.n > room)
		c->bad = true;
	else
		memcpy(to, v.p, v.n);
}

void sr_place_device(struct sr_cursor *c, const struct sr_wire_device *v)
{
	struct ibv_device *device = (void *)(uintptr_t)v->address;

	if (!sr_heap_in_library_arena(device, sizeof(*device))) {
		c->bad = true;
		return;
	}
	memset(device, 0, sizeof(*device));
	device->node_type = v->node_type;
	device->transport_type = v->transport_type;
	place_text(c, device->name, sizeof(device->name), v->name);
	place_text(c, device->dev_name, sizeof(device->dev_name), v->dev_name);
	place_text(c, device->dev_path, sizeof(device->dev_path), v->dev_path);
	place_text(c, device->ibdev_path, sizeof(device->ibdev_path), v->ibdev_path);
}

void sr_put_device_list(struct sr_buf *b, struct ibv_device **list)
{
	uint32_t n = 0;

	while (list && list[n])
		n++;
	sr_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++) {
		struct sr_wire_device v = sr_wire_of_device(list[i]);

		sr_put_device_fields(b, &v);
	}
}

void sr_deliver_device_list(struct sr_cursor *c, struct ibv_device **list)
{
	uint32_t n = sr_get_u32(c);

	if (!list)
		return;
	if (!sr_heap_in_library_arena(list, ((size_t)n + 1) * sizeof(*list))) {
		c->bad = true;
		return;
	}
	list[n] = NULL;
	for (uint32_t i = 0; i < n && !c->bad; i++) {
		struct sr_wire_device v;

		sr_get_device_fields(c, &v);
		sr_place_device(c, &v);
		list[i] = (void *)(uintptr_t)v.address;
	}
}
