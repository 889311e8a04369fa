/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fuzz_verbs.c: threads that make random verbs calls on the stand-in for libibverbs
 * (tests/lib/softdev), each of which says what came of it.
 *
 *   fuzz_verbs SEED apart|together [STEPS]
 *
 * "apart": each thread has objects of its own, so that what it sees follows from the
 * seed: it must be the same bare and recorded.  "together": all use the same queues,
 * also while others post to them, poll them, break and renew them; what a thread sees
 * is then chance, but no completion may be wrong or come twice, and the replay must be
 * what the recording was.
 *
 * Locks guard only what verbs does not: that a queue pair is there while it is used,
 * and the program's own tables.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "check.h"
#include "loopback_qp.h"

#define THREADS  3
#define QPS      6
#define CQS      2
#define DEPTH    16
#define CHAIN    24
#define BUFFERS  256
#define BUFFER   512
#define IDS      (1 << 16)
#define CQ_DEPTH 4096
#define REMOTE                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* What became of the request with this number. */
enum fate { FREE, POSTED, SILENT /* unsignaled: only an error is told */, DONE };

struct request {
	uint8_t fate;
	uint8_t kind; /* enum ibv_wc_opcode of its completion */
	uint16_t buffer;
	uint32_t length;
};

struct end {
	pthread_rwlock_t there; /* written: it is made, broken, connected */
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	pthread_mutex_t building; /* wr_start to wr_complete */
	uintptr_t name;
};

struct world {
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[CQS];
	struct ibv_srq *srq;
	struct end ends[QPS];
	char *memory, *source, *target;
	struct ibv_mr *memory_mr, *source_mr, *target_mr;
	/* With tables: */
	pthread_mutex_t tables;
	struct request requests[IDS];
	uint32_t last_id;
	uint16_t free_buffers[BUFFERS];
	uint32_t free_n;
	uintptr_t names;
	int wrong;
};

struct actor {
	pthread_t thread;
	struct world *w;
	int number;
	uint64_t random;
	char *log;
	size_t logged, room;
};

static struct ibv_context *context;
static int steps = 300;

/* ------------------------------------------------------------------- tools */

static uint32_t chance(struct actor *a, uint32_t below)
{
	a->random = a->random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(a->random >> 33) % below;
}

static bool one_in(struct actor *a, uint32_t n)
{
	return chance(a, n) == 0;
}

__attribute__((format(printf, 2, 3))) static void say(struct actor *a, const char *format, ...)
{
	va_list ap;

	if (a->room - a->logged < 200) {
		a->room = a->room ? 2 * a->room : 65536;
		a->log = realloc(a->log, a->room);
	}
	va_start(ap, format);
	a->logged += (size_t)vsnprintf(a->log + a->logged, 200, format, ap);
	va_end(ap);
}

static uint32_t sum(const void *p, size_t n)
{
	const unsigned char *c = p;
	uint32_t h = 2166136261u;

	while (n--)
		h = (h ^ *c++) * 16777619u;
	return h;
}

/* ---------------------------------------------------------------- requests */

/* Under the tables' lock.  0: there is none left. */
static uint32_t new_request(struct world *w, enum fate fate, int kind, bool has_buffer)
{
	struct request *r;
	uint32_t id;

	if (has_buffer && !w->free_n)
		return 0;
	for (uint32_t tries = 0; tries < IDS; tries++) {
		id = ++w->last_id % IDS;
		r = &w->requests[id];
		if (!id || r->fate == POSTED || r->fate == SILENT)
			continue;
		*r = (struct request){.fate = fate, .kind = (uint8_t)kind, .buffer = UINT16_MAX};
		if (has_buffer)
			r->buffer = w->free_buffers[--w->free_n];
		return id;
	}
	return 0;
}

static void end_request(struct world *w, uint32_t id, enum fate fate)
{
	struct request *r = &w->requests[id];

	if (r->buffer != UINT16_MAX)
		w->free_buffers[w->free_n++] = r->buffer;
	r->buffer = UINT16_MAX;
	r->fate = (uint8_t)fate;
}

static char *buffer_of(struct world *w, uint32_t id)
{
	return w->memory + w->requests[id].buffer * (size_t)BUFFER;
}

static void wrong(struct actor *a, const struct ibv_wc *wc, const char *what)
{
	a->w->wrong++;
	say(a, "WRONG: %s: wr_id %llx %s op %d\n", what, (unsigned long long)wc->wr_id,
	    ibv_wc_status_str(wc->status), wc->opcode);
}

static void completed(struct actor *a, const struct ibv_wc *wc)
{
	struct world *w = a->w;
	struct request *r = wc->wr_id < IDS ? &w->requests[wc->wr_id] : NULL;
	bool good = wc->status == IBV_WC_SUCCESS;
	uint32_t bytes = 0;

	pthread_mutex_lock(&w->tables);
	if (!r || (r->fate != POSTED && r->fate != SILENT)) {
		wrong(a, wc, r && r->fate == DONE ? "twice" : "unknown");
	} else {
		if (good && r->fate == SILENT)
			wrong(a, wc, "unsignaled");
		if (good &&
		    r->kind != (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? IBV_WC_RECV : wc->opcode))
			wrong(a, wc, "other kind");
		if (good && wc->opcode == IBV_WC_RECV)
			bytes = sum(buffer_of(w, (uint32_t)wc->wr_id), wc->byte_len);
		if (good && wc->opcode == IBV_WC_RDMA_READ)
			bytes = sum(buffer_of(w, (uint32_t)wc->wr_id), r->length);
		end_request(w, (uint32_t)wc->wr_id, DONE);
	}
	pthread_mutex_unlock(&w->tables);
	say(a, "wc %llu %s op %d len %u flags %x: %08x\n", (unsigned long long)wc->wr_id,
	    ibv_wc_status_str(wc->status), good ? (int)wc->opcode : -1, good ? wc->byte_len : 0,
	    good ? wc->wc_flags : 0, bytes);
}

static void poll_some(struct actor *a)
{
	struct ibv_wc wc[12];
	int n = ibv_poll_cq(a->w->cq[chance(a, CQS)], (int)chance(a, 13), wc);

	if (n < 0)
		say(a, "poll %d\n", n);
	for (int i = 0; i < n; i++)
		completed(a, &wc[i]);
}

/* ------------------------------------------------------------------- posts */

static struct end *use(struct actor *a)
{
	struct end *e = &a->w->ends[chance(a, QPS)];

	pthread_rwlock_rdlock(&e->there);
	if (e->qp)
		return e;
	pthread_rwlock_unlock(&e->there);
	return NULL;
}

static void post_receives(struct actor *a)
{
	struct world *w = a->w;
	struct ibv_recv_wr wr[CHAIN], *bad = NULL;
	struct ibv_sge sge[CHAIN];
	bool shared = one_in(a, 3);
	struct end *e = shared ? NULL : use(a);
	int n = 0, want = one_in(a, 4) ? 1 + (int)chance(a, CHAIN) : 1 + (int)chance(a, 4), err,
	    posted;

	if (!shared && !e)
		return;
	pthread_mutex_lock(&w->tables);
	for (; n < want; n++) {
		uint32_t id = new_request(w, POSTED, IBV_WC_RECV, true);

		if (!id)
			break;
		sge[n] = (struct ibv_sge){(uintptr_t)buffer_of(w, id), BUFFER, w->memory_mr->lkey};
		wr[n] = (struct ibv_recv_wr){.wr_id = id, .sg_list = &sge[n], .num_sge = 1};
		if (n)
			wr[n - 1].next = &wr[n];
	}
	pthread_mutex_unlock(&w->tables);
	if (n) {
		err = shared ? ibv_post_srq_recv(w->srq, wr, &bad) : ibv_post_recv(e->qp, wr, &bad);
		posted = err ? (int)(bad - wr) : n;
		say(a, "receives %d: %d, %d posted\n", n, err, posted);
		if (posted < 0 || posted > n)
			w->wrong++, posted = 0;
		pthread_mutex_lock(&w->tables);
		for (int i = n - 1; i >= posted; i--)
			end_request(w, (uint32_t)wr[i].wr_id, FREE);
		pthread_mutex_unlock(&w->tables);
	}
	if (e)
		pthread_rwlock_unlock(&e->there);
}

static bool choose(struct actor *a, struct ibv_send_wr *wr, struct ibv_sge *sge, int max)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		enum ibv_wc_opcode kind;
	} kinds[] = {{IBV_WR_SEND, IBV_WC_SEND},
		     {IBV_WR_SEND, IBV_WC_SEND},
		     {IBV_WR_SEND_WITH_IMM, IBV_WC_SEND},
		     {IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE},
		     {IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WC_RDMA_WRITE},
		     {IBV_WR_RDMA_READ, IBV_WC_RDMA_READ},
		     {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_FETCH_ADD}};
	struct world *w = a->w;
	uint32_t k = chance(a, 7), length = k == 6 ? 8 : chance(a, BUFFER + 1), id;
	bool fetches = k >= 5, signaled = !one_in(a, 2),
	     inlined = !fetches && length <= 64 && one_in(a, 2);

	id = new_request(w, signaled ? POSTED : SILENT, kinds[k].kind, fetches && signaled);
	if (!id)
		return false;
	w->requests[id].length = length;
	*sge = (struct ibv_sge){.addr = (uintptr_t)w->source + chance(a, BUFFER),
				.length = length,
				.lkey = w->source_mr->lkey};
	/* What nobody is told of goes to the last buffer, at which nobody looks. */
	if (fetches)
		*sge = (struct ibv_sge){.addr = (uintptr_t)w->memory +
						(signaled ? w->requests[id].buffer : BUFFERS) *
						    (size_t)BUFFER,
					.length = length,
					.lkey = w->memory_mr->lkey};
	*wr = (struct ibv_send_wr){.wr_id = id,
				   .sg_list = sge,
				   .num_sge = one_in(a, 60) ? max + 1 : 1,
				   .opcode = kinds[k].opcode,
				   .send_flags = (signaled ? IBV_SEND_SIGNALED : 0) |
						 (inlined ? IBV_SEND_INLINE : 0) |
						 (one_in(a, 3) ? IBV_SEND_SOLICITED : 0)};
	wr->imm_data = id;
	if (k == 6) {
		wr->wr.atomic.remote_addr = (uintptr_t)w->target;
		wr->wr.atomic.rkey = w->target_mr->rkey;
		wr->wr.atomic.compare_add = 1;
	} else {
		/* READs look at what nobody writes. */
		wr->wr.rdma.remote_addr = (uintptr_t)(k == 5 ? w->source : w->target + 8);
		wr->wr.rdma.rkey = k == 5 ? w->source_mr->rkey : w->target_mr->rkey;
		if (one_in(a, 40))
			wr->wr.rdma.rkey = 0xbad;
	}
	return true;
}

static int post_built(struct actor *a, struct end *e, struct ibv_send_wr *wr, int n)
{
	int err = ECANCELED;

	pthread_mutex_lock(&e->building);
	ibv_wr_start(e->ex);
	for (int i = 0; i < n; i++) {
		e->ex->wr_id = wr[i].wr_id;
		e->ex->wr_flags = wr[i].send_flags & ~(unsigned int)IBV_SEND_INLINE;
		switch (wr[i].opcode) {
		case IBV_WR_SEND:
			ibv_wr_send(e->ex);
			break;
		case IBV_WR_SEND_WITH_IMM:
			ibv_wr_send_imm(e->ex, wr[i].imm_data);
			break;
		case IBV_WR_RDMA_WRITE:
			ibv_wr_rdma_write(e->ex, wr[i].wr.rdma.rkey, wr[i].wr.rdma.remote_addr);
			break;
		case IBV_WR_RDMA_WRITE_WITH_IMM:
			ibv_wr_rdma_write_imm(e->ex, wr[i].wr.rdma.rkey, wr[i].wr.rdma.remote_addr,
					      wr[i].imm_data);
			break;
		case IBV_WR_RDMA_READ:
			ibv_wr_rdma_read(e->ex, wr[i].wr.rdma.rkey, wr[i].wr.rdma.remote_addr);
			break;
		default:
			ibv_wr_atomic_fetch_add(e->ex, wr[i].wr.atomic.rkey,
						wr[i].wr.atomic.remote_addr, 1);
			break;
		}
		ibv_wr_set_sge(e->ex, wr[i].sg_list->lkey, wr[i].sg_list->addr,
			       wr[i].sg_list->length);
	}
	if (one_in(a, 8))
		ibv_wr_abort(e->ex);
	else
		err = ibv_wr_complete(e->ex);
	pthread_mutex_unlock(&e->building);
	return err;
}

static void post_sends(struct actor *a)
{
	struct world *w = a->w;
	struct ibv_send_wr wr[CHAIN], *bad = wr;
	struct ibv_sge sge[CHAIN][3];
	struct end *e = use(a);
	int n = 0, want = one_in(a, 4) ? 1 + (int)chance(a, CHAIN) : 1 + (int)chance(a, 4), err,
	    posted;

	if (!e)
		return;
	memset(sge, 0, sizeof(sge));
	pthread_mutex_lock(&w->tables);
	for (; n < want && choose(a, &wr[n], sge[n], 2); n++)
		if (n)
			wr[n - 1].next = &wr[n];
	pthread_mutex_unlock(&w->tables);
	if (n) {
		err = e->ex && one_in(a, 2) ? post_built(a, e, wr, n)
					    : ibv_post_send(e->qp, wr, &bad);
		posted = err ? (int)(bad - wr) : n;
		say(a, "%td: sends %d: %d, %d posted\n", e - w->ends, n, err, posted);
		if (posted < 0 || posted > n)
			w->wrong++, posted = 0;
		pthread_mutex_lock(&w->tables);
		for (int i = n - 1; i >= posted; i--)
			end_request(w, (uint32_t)wr[i].wr_id, FREE);
		pthread_mutex_unlock(&w->tables);
	}
	pthread_rwlock_unlock(&e->there);
}

/* ------------------------------------------------------------- queue pairs */

static int to_state(struct end *e, struct end *peer, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = loopback_attr(state, peer->qp ? peer->qp->qp_num : 0, REMOTE);

	return ibv_modify_qp(e->qp, &attr, loopback_mask(state));
}

static uintptr_t new_name(struct world *w)
{
	uintptr_t name;

	pthread_mutex_lock(&w->tables);
	name = ++w->names;
	pthread_mutex_unlock(&w->tables);
	return name;
}

static void create(struct actor *a, struct end *e)
{
	struct world *w = a->w;
	struct ibv_qp_init_attr_ex attr = {
	    .qp_context = (void *)new_name(w),
	    .send_cq = w->cq[chance(a, CQS)],
	    .recv_cq = w->cq[chance(a, CQS)],
	    .srq = one_in(a, 3) ? w->srq : NULL,
	    .cap = {DEPTH, DEPTH, 2, 2, 64},
	    .qp_type = IBV_QPT_RC,
	    .comp_mask = IBV_QP_INIT_ATTR_PD,
	    .pd = w->pd,
	};

	if (one_in(a, 3)) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags =
		    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |
		    IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
		    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	}
	e->qp = ibv_create_qp_ex(context, &attr);
	e->ex = e->qp && attr.send_ops_flags ? ibv_qp_to_qp_ex(e->qp) : NULL;
	say(a, "create %d\n", e->qp ? 0 : errno);
}

/* Each with itself or with its neighbour. */
static void connect_ends(struct actor *a, struct end *one, struct end *two)
{
	static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						   IBV_QPS_RTS};
	bool crossed = one_in(a, 2);

	for (int i = 0; i < 4; i++) {
		say(a, "state %d: %d", states[i],
		    one->qp ? to_state(one, crossed ? two : one, states[i]) : 0);
		say(a, " %d\n", two->qp ? to_state(two, crossed ? one : two, states[i]) : 0);
	}
}

static void disturb(struct actor *a)
{
	uint32_t pair = chance(a, QPS / 2) * 2;
	struct end *one = &a->w->ends[pair], *two = one + 1, *e = one_in(a, 2) ? one : two;

	pthread_rwlock_wrlock(&one->there);
	pthread_rwlock_wrlock(&two->there);
	switch (chance(a, 4)) {
	case 0:
		if (e->qp)
			say(a, "to error: %d\n", to_state(e, e, IBV_QPS_ERR));
		break;
	case 1:
		connect_ends(a, one, two);
		break;
	default:
		if (e->qp) {
			say(a, "destroy %d\n", ibv_destroy_qp(e->qp));
			e->qp = NULL;
		}
		if (!one_in(a, 4))
			create(a, e);
		connect_ends(a, one, two);
		break;
	}
	pthread_rwlock_unlock(&two->there);
	pthread_rwlock_unlock(&one->there);
}

/* ------------------------------------------------------------------ others */

static void events(struct actor *a)
{
	struct world *w = a->w;
	struct ibv_cq *cq;
	void *data;
	int n = 0;

	ibv_req_notify_cq(w->cq[chance(a, CQS)], (int)chance(a, 2));
	while (n < 8 && !ibv_get_cq_event(w->channel, &cq, &data)) {
		ibv_ack_cq_events(cq, 1);
		n++;
	}
	say(a, "%d events\n", n);
}

static void registrations(struct actor *a)
{
	static _Alignas(4096) char bytes[THREADS][4 * 4096];
	char *p = bytes[a->number];
	struct ibv_mr *mr = ibv_reg_mr(a->w->pd, p + chance(a, 4096), 1 + chance(a, 8192),
				       one_in(a, 3) ? REMOTE : IBV_ACCESS_LOCAL_WRITE);

	memset(p, a->number, sizeof(bytes[0]));
	say(a, "reg %d", mr ? 0 : errno);
	if (mr && one_in(a, 3))
		say(a, " rereg %d",
		    ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, 4096, 0));
	say(a, " dereg %d\n", mr ? ibv_dereg_mr(mr) : 0);
}

static void resize(struct actor *a)
{
	say(a, "resize %d\n",
	    ibv_resize_cq(a->w->cq[chance(a, CQS)], CQ_DEPTH + (int)chance(a, 1000)));
}

static void *act(void *argument)
{
	struct actor *a = argument;

	for (int i = 0; i < steps; i++) {
		switch (chance(a, 20)) {
		case 0:
			disturb(a);
			break;
		case 1:
			events(a);
			break;
		case 2:
			registrations(a);
			break;
		case 3:
			if (one_in(a, 4))
				resize(a);
			break;
		case 4:
		case 5:
		case 6:
		case 7:
			post_receives(a);
			break;
		case 8:
		case 9:
		case 10:
		case 11:
		case 12:
			post_sends(a);
			break;
		default:
			poll_some(a);
			break;
		}
	}
	return NULL;
}

static struct world *new_world(struct actor *a)
{
	struct world *w = check(calloc(1, sizeof(*w)), "memory");
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4 * DEPTH, .max_sge = 2}};

	a->w = w;
	w->pd = check(ibv_alloc_pd(context), "ibv_alloc_pd");
	w->channel = check(ibv_create_comp_channel(context), "ibv_create_comp_channel");
	fcntl(w->channel->fd, F_SETFL, fcntl(w->channel->fd, F_GETFL) | O_NONBLOCK);
	for (int i = 0; i < CQS; i++)
		w->cq[i] =
		    check(ibv_create_cq(context, CQ_DEPTH, NULL, w->channel, 0), "ibv_create_cq");
	w->srq = check(ibv_create_srq(w->pd, &srq), "ibv_create_srq");
	w->memory = check(aligned_alloc(4096, (BUFFERS + 8) * BUFFER), "memory");
	w->source = check(aligned_alloc(4096, 4096), "memory");
	w->target = check(aligned_alloc(4096, 4096), "memory");
	memset(w->memory, 0, (BUFFERS + 8) * BUFFER);
	memset(w->target, 0, 4096);
	for (int i = 0; i < 4096; i++)
		w->source[i] = (char)chance(a, 256);
	w->memory_mr =
	    check(ibv_reg_mr(w->pd, w->memory, (BUFFERS + 8) * BUFFER, IBV_ACCESS_LOCAL_WRITE),
		  "ibv_reg_mr");
	w->source_mr =
	    check(ibv_reg_mr(w->pd, w->source, 4096, IBV_ACCESS_REMOTE_READ), "ibv_reg_mr");
	w->target_mr = check(ibv_reg_mr(w->pd, w->target, 4096, REMOTE), "ibv_reg_mr");
	pthread_mutex_init(&w->tables, NULL);
	for (uint16_t i = 0; i < BUFFERS; i++)
		w->free_buffers[w->free_n++] = i;
	w->names = (uintptr_t)a->number << 16;
	for (int i = 0; i < QPS; i++) {
		pthread_rwlock_init(&w->ends[i].there, NULL);
		pthread_mutex_init(&w->ends[i].building, NULL);
		create(a, &w->ends[i]);
	}
	for (int i = 0; i < QPS; i += 2)
		connect_ends(a, &w->ends[i], &w->ends[i + 1]);
	return w;
}

/* What is left in the queues; and then every request that was posted on a queue pair that is gone
 * is none. */
static void drain(struct actor *a)
{
	for (int i = 0; i < 400; i++)
		poll_some(a);
}

static void end_world(struct actor *a)
{
	struct world *w = a->w;

	for (int i = 0; i < QPS; i++)
		if (w->ends[i].qp)
			say(a, "destroy %d\n", ibv_destroy_qp(w->ends[i].qp));
	drain(a);
	say(a, "mr %d %d %d", ibv_dereg_mr(w->memory_mr), ibv_dereg_mr(w->source_mr),
	    ibv_dereg_mr(w->target_mr));
	say(a, " srq %d", ibv_destroy_srq(w->srq));
	for (int i = 0; i < CQS; i++)
		say(a, " cq %d", ibv_destroy_cq(w->cq[i]));
	say(a, " channel %d", ibv_destroy_comp_channel(w->channel));
	say(a, " pd %d\n", ibv_dealloc_pd(w->pd));
}

int main(int argc, char **argv)
{
	static struct actor actors[THREADS];
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool together = argc > 2 && !strcmp(argv[2], "together");
	uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
	int failed = 0;

	steps = argc > 3 ? atoi(argv[3]) : steps;
	context = check(list && list[0] ? ibv_open_device(list[0]) : NULL,
			"no device: LD_LIBRARY_PATH=BUILD/tests/lib/softdev");
	ibv_free_device_list(list);
	for (int i = 0; i < THREADS; i++) {
		actors[i].number = i;
		actors[i].random = seed * 1000003 + (uint64_t)i;
		if (i && together)
			actors[i].w = actors[0].w;
		else
			new_world(&actors[i]);
	}
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&actors[i].thread, NULL, act, &actors[i]))
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(actors[i].thread, NULL);
	for (int i = 0; i < THREADS; i++) {
		if (!i || !together)
			end_world(&actors[i]);
		printf("thread %d\n%.*s", i, (int)actors[i].logged, actors[i].log);
		failed += actors[i].w->wrong;
	}
	printf("%d wrong\n", failed);
	return failed ? 2 : 0;
}
