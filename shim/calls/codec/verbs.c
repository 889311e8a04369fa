/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs.c: work requests, completions and queue pairs. */
#include <netinet/ip.h>

#include "logd/base/checksum.h"
#include "logd/base/opcodes.h"
#include "logd/base/page.h"
#include "logd/trace/left_out.h"
#include "shim/calls/codec/custom.h"
#include "shim/core/sums.h"
#include "shim/core/thread.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/ops.h"
#include "shim/verbs/regions.h"

/* ---------------------------------------------------------- work requests */

/* No device accepts a longer list. */
#define SGES_MAX     4096
/* A list of up to this length is copied to the stack if it lies in an exposed region. */
#define SGES_USUAL   8

/*
 * Devices accept less inline data.  A device refuses longer data by the length alone, so that
 * memory may be unreadable and is checked first.
 */
#define INLINE_USUAL 1024

static bool is_on_one_page(const void *begin, const void *end)
{
	return (uintptr_t)begin / PAGE == ((uintptr_t)end - 1) / PAGE;
}

/*
 * A device refuses a list that is too long for the queue by the length alone.  The length may come
 * from an uninitialised field, so the shim checks that the list is readable.
 */
static uint32_t list_length(const struct ibv_sge *list, int n)
{
	if (!list || n <= 0 || n > SGES_MAX)
		return 0;
	if (is_on_one_page(list, list + n) || sr_is_readable(list, (size_t)n * sizeof(*list)))
		return (uint32_t)n;
	return 0;
}

/* The CPU reads inline data, so the addresses are used and the keys ignored. */
static const void *inline_data(const struct ibv_sge *sge)
{
	const void *p = (void *)(uintptr_t)sge->addr;

	return sge->length <= INLINE_USUAL || sr_is_readable(p, sge->length) ? p : NULL;
}

/* The list as the program sees it; a copy in `room` if it lies in an exposed region. */
static const struct ibv_sge *see_list(const struct ibv_sge *list, uint32_t n,
				      struct ibv_sge room[SGES_USUAL])
{
	return n && n <= SGES_USUAL ? sr_regions_see(list, room, n * sizeof(*list)) : list;
}

static uint64_t checksum_of(const struct ibv_qp *qp, const struct ibv_send_wr *wr,
			    const struct ibv_sge *list, uint32_t n)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct ibv_sge *sge = &list[i];
		const void *p = wr->send_flags & IBV_SEND_INLINE
				    ? inline_data(sge)
				    : sr_mr_memory(qp->context, sge->lkey, sge->addr, sge->length);

		if (p && sge->length)
			sum = sr_regions_checksum(p, sge->length, sum);
	}
	return sum;
}

/* What differs from request to request, and follows from what the program did before. */
static void sum_request(struct sr_wire_send_wr *v)
{
	sr_sums_sent(v->checksum);
	sr_sums_sent(v->remote_addr);
	sr_sums_sent(v->imm_data);
	if (v->compare_add | v->swap) {
		sr_sums_sent(v->compare_add);
		sr_sums_sent(v->swap);
	}
	v->checksum = v->remote_addr = v->compare_add = v->swap = v->imm_data = 0;
}

/* The list of n pieces is the last that was put. */
static void sum_list(struct sr_buf *b, uint32_t n)
{
	struct ibv_sge *sge = (struct ibv_sge *)(b->p + b->len) - n;

	if (n)
		sr_sums_keep(b, b->len - n * sizeof(*sge));
	_Static_assert(sizeof(*sge) == 16 && offsetof(struct ibv_sge, length) == 8, "as it is encoded");
	for (uint32_t i = 0; b->p && i < n; i++) {
		struct ibv_sge piece;

		memcpy(&piece, &sge[i], sizeof(piece));
		sr_sums_sent(piece.addr);
		sr_sums_sent(piece.length);
		piece.addr = piece.length = 0;
		memcpy(&sge[i], &piece, sizeof(piece));
	}
}

/* The request as it is, without its list, which is not read twice: sum_list() keeps it. */
static void keep_request(struct sr_buf *b, struct sr_wire_send_wr v)
{
	size_t at = b->len;

	v.sg_list_n = 0;
	sr_put_send_wr_fields(b, &v);
	b->len -= sizeof(uint32_t); /* the length of the list, which follows */
	sr_sums_keep(b, at);
	b->len = at;
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
	if (sr_sums_keeps())
		keep_request(b, v);
	if (sr_sums_take())
		sum_request(&v);
	sr_put_send_wr_fields(b, &v);
	if (sr_sums_take())
		sum_list(b, v.sg_list_n);
}

void sr_put_send_wr_list(struct sr_buf *b, const struct ibv_send_wr *wr, const struct ibv_qp *qp)
{
	struct sr_list list = sr_list_begin(b);
	struct ibv_send_wr room;

	for (; wr; wr = wr->next, list.n++) {
		wr = sr_regions_see(wr, &room, sizeof(room));
		put_send_wr(b, wr, qp);
	}
	sr_sums_count(list.n);
	sr_list_end(&list);
}

void sr_put_recv_wr_list(struct sr_buf *b, const struct ibv_recv_wr *wr)
{
	struct sr_list list = sr_list_begin(b);
	struct ibv_sge sges[SGES_USUAL];
	struct ibv_recv_wr room;

	for (; wr; wr = wr->next, list.n++) {
		struct sr_wire_recv_wr v;

		wr = sr_regions_see(wr, &room, sizeof(room));
		v.wr_id = wr->wr_id;
		v.sg_list_n = list_length(wr->sg_list, wr->num_sge);
		v.sg_list = see_list(wr->sg_list, v.sg_list_n, sges);
		sr_put_recv_wr_fields(b, &v);
		if (sr_sums_take())
			sum_list(b, v.sg_list_n);
	}
	sr_sums_count(list.n);
	sr_list_end(&list);
}

void sr_put_sge_array(struct sr_buf *b, const struct ibv_sge *sge, size_t n)
{
	uint32_t there = n > SGES_MAX ? 0 : list_length(sge, (int)n);

	sr_put_u32(b, there);
	for (uint32_t i = 0; i < there; i++)
		sr_put_ibv_sge(b, &sge[i]);
}

/* A request's number in its chain.  If the device names no request, the first one is meant. */
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
	sr_sums_count((uint32_t)n);
	sr_put_u32(b, (uint32_t)n);
	for (int i = 0; i < n; i++) {
		struct ibv_wc one = wc[i];

		if (sr_self.received.lacks_queue) {
			one.wr_id = 0;
			one.qp_num = SR_PICK_LEFT_OUT;
		}
		sr_put_ibv_wc(b, &one);
	}
}

void sr_deliver_wc_array(struct sr_cursor *c, struct ibv_wc *wc, int n)
{
	if (sr_get_u32(c) != (uint32_t)n) {
		c->bad = true;
		return;
	}
	sr_sums_count((uint32_t)n);
	for (int i = 0; i < n; i++)
		sr_get_ibv_wc(c, &wc[i]);
}

/*
 * With the lowest byte of its checksum, 255 of 256 other messages are found at once, and with them the rank that sent
 * them.  The sums find the others.  Of what a READ brought a replay tries candidates.
 *
 * It is memory that peers do not write, or, of a READ, what has come where they do.
 */
static void put_left_out(struct sr_buf *b, const struct sr_received *received, const struct sr_received_piece *piece)
{
	const void *p = piece->exposed ? sr_exposed_backing(piece->addr) : piece->addr;
	uint64_t checksum = sr_checksum(p, piece->length, 0);
	uint32_t n = piece->fetched ? SR_LEFT_OUT_OF_READ : SR_LEFT_OUT_OF_MESSAGE;
	uint8_t l[SR_LEFT_OUT_MOST];

	sr_sums_received(checksum);
	sr_left_out_put(l, piece->length, checksum, n);
	sr_put_u64(b, (received->lacks_queue ? 0 : (uintptr_t)piece->addr) | SR_LEFT_OUT);
	sr_put_bytes(b, l, SR_LEFT_OUT_BYTES(n));
}

static void put_piece(struct sr_buf *b, struct sr_received *received,
		      struct sr_received_piece *piece)
{
	if (__builtin_expect(piece->left_out, 0)) {
		put_left_out(b, received, piece);
		return;
	}
	sr_put_u64(b, (uintptr_t)piece->addr);
	if (piece->length < SR_GATHER_MIN) {
		char near[SR_GATHER_MIN];
		bool copied = sr_regions_is_near(piece->addr);

		if (copied)
			sr_exposed_copy(piece->addr, near, piece->length);
		piece->at = 0;
		sr_put_bytes(b, copied ? near : piece->addr, piece->length);
		return;
	}
	sr_put_u32(b, piece->length);
	piece->at = (uint32_t)b->len;
	received->gathered += piece->length;
}

/* Each is a struct segment of calls.def.  The engine adds the data of long ones. */
void sr_put_arrived(struct sr_buf *b, struct sr_received *received)
{
	sr_put_u32(b, received->count);
	for (uint32_t i = 0; i < received->count; i++)
		put_piece(b, received, &received->pieces[i]);
}

/* The sender's replay brings it: shim/replay/group/completions.c. */
static void expect_left_out(struct sr_cursor *c, const struct sr_wire_segment *v,
			    struct sr_received *received)
{
	struct sr_left_out l;

	if (!sr_left_out_get(&l, v->data.p, v->data.n)) {
		c->bad = true;
		return;
	}
	sr_received_expect(received, (void *)(uintptr_t)(v->addr & ~SR_LEFT_OUT), &l);
}

void sr_deliver_arrived(struct sr_cursor *c, struct sr_received *received)
{
	for (uint32_t left = sr_get_u32(c); left && !c->bad; left--) {
		struct sr_wire_segment v;

		sr_get_segment_fields(c, &v);
		if (!c->bad && v.addr & SR_LEFT_OUT)
			expect_left_out(c, &v, received);
		else if (!c->bad && v.data.n)
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
 * With IPv4 (RoCE v2), the IP header is at the end of the struct, and the device does not write
 * the bytes before it.  Unless the first byte looks like IPv6, rdma-core reads only what it needs
 * to answer.  So only that is compared; the rest differs from packet to packet.
 */
void sr_put_grh(struct sr_buf *b, const struct ibv_grh *grh)
{
	const uint8_t *bytes = (const uint8_t *)grh;
	struct __attribute__((packed)) {
		uint8_t tos, ttl;
		uint32_t saddr, daddr;
	} answered;
	struct iphdr ip;

	memcpy(&ip, bytes + sizeof(*grh) - sizeof(ip), sizeof(ip));
	if (bytes[0] >> 4 == 6 || ip.version != IPVERSION) {
		sr_put_bytes(b, grh, sizeof(*grh));
		return;
	}
	answered.tos = ip.tos;
	answered.ttl = ip.ttl;
	answered.saddr = ip.saddr;
	answered.daddr = ip.daddr;
	sr_put_bytes(b, &answered, sizeof(answered));
}

void sr_put_qp_attr_masked(struct sr_buf *b, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr given = {};

	/* Members that the mask does not name may be uninitialised. */
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
	/* The call that created the queue pair has already set qp_base. */
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
