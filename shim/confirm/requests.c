/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * requests.c: an access that a request makes.
 *
 * Either the request is kept back while the program goes on, and a thread of the shim's waits in
 * its stead; or the thread that is about to post it waits.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/base/opcodes.h"
#include "logd/base/rawsys.h"
#include "logd/base/say.h"
#include "shim/confirm/memory.h"
#include "shim/confirm/sides.h"
#include "shim/memory/heap.h"
#include "shim/verbs/held.h"
#include "shim/verbs/posting.h"

#define PIECES      16
#define COMPARED    4096
#define STACK_BYTES (1u << 20)
#define SETTLING_MS 3 /* what cannot be proven to have landed has so long */

/* A request that is pending. */
struct request {
	struct ibv_qp *qp;
	uint64_t remote, length;
	struct ibv_sge list[PIECES];
	int pieces;
	bool is_local, is_message;
};

static struct holder {
	struct request request;
	_Atomic uint32_t works; /* a futex: there is something for the thread to do */
	_Atomic bool cancelled;
	bool has_thread;
	const struct sr_thread *by; /* the thread that posts it, until its post has returned */
	bool is_kept;		    /* ... which keeps it back; else that thread waits itself */
} holders[2];

/* ------------------------------------------------------------ which request */

static uint64_t length_of(const struct request *r)
{
	uint64_t n = 0;

	for (int i = 0; i < r->pieces; i++)
		n += r->list[i].length;
	return n;
}

static void describe(struct request *r, struct ibv_qp *qp, const struct ibv_send_wr *wr,
		     const struct sr_confirm_side *s)
{
	const bool is_atomic = sr_op(wr->opcode) & SR_OP_ATOMIC;

	*r = (struct request){.qp = qp, .is_local = s->is_local, .is_message = s->is_message};
	r->pieces = wr->num_sge < PIECES ? wr->num_sge : PIECES;
	if (r->pieces > 0)
		sr_posting_read(r->list, wr->sg_list, (size_t)r->pieces * sizeof(r->list[0]));
	r->remote = is_atomic ? wr->wr.atomic.remote_addr : wr->wr.rdma.remote_addr;
	if (s->is_message)
		r->remote = s->begin;
	r->length = is_atomic ? sizeof(uint64_t) : length_of(r);
}

static bool overlaps(const struct sr_confirm_side *s, uint64_t begin, uint64_t length)
{
	return begin < s->end && begin + length > s->begin;
}

/* The memory that it accesses, as far as this race is about it: the recorded one, or else its first
 * piece. */
static bool range_of(const struct request *r, const struct sr_confirm_side *s, uint64_t *begin,
		     uint64_t *end)
{
	int piece = 0;
	bool is_there = false;

	for (int i = 0; i < r->pieces && r->is_local && !is_there; i++) {
		is_there = overlaps(s, r->list[i].addr, r->list[i].length);
		piece = is_there ? i : 0;
	}
	*begin = r->is_local ? r->list[piece].addr : r->remote;
	*end = *begin + (r->is_local ? r->list[piece].length : r->length);
	/* Where it goes is the receiver's affair. */
	if (r->is_message)
		*end = s->end;
	return r->is_message || r->is_local ? is_there || r->is_message
					    : overlaps(s, *begin, *end - *begin);
}

/* The first of a chain that may be the access; one at the recorded memory rather than another. */
static bool find(int i, const uint64_t *a, struct request *found, uint64_t *begin, uint64_t *end)
{
	const struct sr_confirm_side *s = &sr_agreement->side[i];
	struct ibv_send_wr wr = {.next = (struct ibv_send_wr *)a[1]};
	struct request r;
	uint64_t from, to;
	bool any = false;

	while (wr.next) {
		sr_posting_read(&wr, wr.next, sizeof(wr));
		if (wr.opcode != s->opcode)
			continue;
		describe(&r, (struct ibv_qp *)a[0], &wr, s);
		if (range_of(&r, s, &from, &to) || (!any && s->occurrence)) {
			any = true;
			*found = r;
			*begin = from;
			*end = to;
		}
	}
	return any;
}

/* ------------------------------------------------------------------- values */

/* The bytes in the program's memory that go to, or come from, what both access. */
static void note_value(int i, const struct request *r)
{
	static char bytes[2][COMPARED];
	uint64_t begin, end, at = r->remote;
	size_t n;

	sr_agreement_range(&begin, &end);
	n = end - begin < COMPARED ? (size_t)(end - begin) : COMPARED;
	if (!n)
		return;
	if (r->is_local) {
		if (sr_confirm_read(bytes[i], begin, n))
			sr_agreement_value(i, bytes[i], n);
		return;
	}
	for (int k = 0; k < r->pieces; at += r->list[k++].length) {
		uint64_t offset = begin - at;

		if (begin < at || offset >= r->list[k].length)
			continue;
		if (n > r->list[k].length - offset)
			n = r->list[k].length - offset;
		if (sr_confirm_read(bytes[i], r->list[k].addr + offset, n))
			sr_agreement_value(i, bytes[i], n);
		return;
	}
}

/* ------------------------------------------------------------------ holding */

static bool await_landing(struct ibv_qp *qp)
{
	const struct timespec settling = sr_sys_ms(SETTLING_MS);

	if (sr_held_await_landing(qp))
		return true;
	sr_sys_nanosleep(&settling);
	return false;
}

static void has_been_posted(int i)
{
	struct holder *h = &holders[i];
	bool is_proven = await_landing(h->request.qp);

	if (sr_agreement->side[i].fetches)
		note_value(i, &h->request);
	sr_agreement_done(i, is_proven);
}

static void let_go(int i)
{
	struct holder *h = &holders[i];
	bool goes = sr_agreement_wait(i, &h->cancelled);

	if (goes && !sr_agreement->side[i].fetches)
		note_value(i, &h->request);
	sr_held_release(i);
	if (goes)
		has_been_posted(i);
}

static void *hold(void *argument)
{
	int i = (int)(intptr_t)argument;
	struct holder *h = &holders[i];

	for (;;) {
		while (!atomic_load(&h->works))
			sr_sys_futex((uint32_t *)&h->works, FUTEX_WAIT_PRIVATE, 0, NULL);
		let_go(i);
		atomic_store(&h->works, 0);
	}
	return NULL;
}

/* A library's thread to the recorder; its stack is none of the program's mappings. */
static bool start_thread(int i)
{
	void *stack = sr_sys_mmap(sr_heap_place_mapping(STACK_BYTES), STACK_BYTES,
				  PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t id;

	if (sr_sys_is_error(stack))
		return false;
	pthread_attr_init(&attr);
	pthread_attr_setstack(&attr, stack, STACK_BYTES);
	return !pthread_create(&id, &attr, hold, (void *)(intptr_t)i);
}

void sr_confirm_request_begins(int i, const uint64_t *a, enum sr_call_number n)
{
	struct holder *h = &holders[i];
	const bool is_post = n == SR_CALL_post_send, is_kept = is_post && !sr_agreement->by_thread;
	const struct sr_qp *q = sr_qp_find((struct ibv_qp *)a[0]);
	uint64_t begin = sr_agreement->side[i].begin, end = sr_agreement->side[i].end;
	struct request r = {.qp = (struct ibv_qp *)a[0]};

	if (atomic_load(&h->works) || h->by || !q || !q->sq ||
	    (is_post && !find(i, a, &r, &begin, &end)))
		return;
	if (is_kept && !h->has_thread)
		h->has_thread = start_thread(i);
	if ((is_kept && !h->has_thread) || !sr_agreement_arrive(i, begin, end))
		return;
	h->request = r;
	h->is_kept = is_kept;
	atomic_store(&h->cancelled, false);
	if (is_kept)
		sr_held_begin(i, r.qp);
	else if (!sr_agreement_wait(i, NULL))
		return;
	else if (!sr_agreement->side[i].fetches)
		note_value(i, &h->request);
	h->by = &sr_self;
}

/*
 * What a builder has begun is posted when the batch is complete.  What is kept may be released from here on: if that came
 * before it was kept, it would be posted behind what is to come after it.
 */
void sr_confirm_request_ends(int i, struct sr_thread *t, enum sr_call_number n)
{
	struct holder *h = &holders[i];

	if (h->by != t || (n != SR_CALL_post_send && n != SR_CALL_wr_complete))
		return;
	h->by = NULL;
	if (!h->is_kept) {
		has_been_posted(i);
		return;
	}
	atomic_store(&h->works, 1);
	sr_sys_futex((uint32_t *)&h->works, FUTEX_WAKE_PRIVATE, 1, NULL);
}

void sr_confirm_release_requests(void)
{
	for (int i = 0; i < 2; i++) {
		atomic_store(&holders[i].cancelled, true);
		sr_held_release(i);
	}
}
