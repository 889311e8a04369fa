/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_wq.c: a completion gets the program's wr_id back and reports exactly the bytes that
 * it proves to be in memory, for any order, signaling and errors, and also after the queue
 * pair is gone.
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shim/core/thread.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/buffers.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/polls.h"

static char memory[1 << 16];
static struct ibv_context context;
static struct sr_received received;

static uint32_t proven(void)
{
	return received.count - received.unproven;
}
static struct ibv_cq cq;

/* In these tests, keys are 1 for memory of the process and 2 for memory of a device. */
void *sr_mr_memory(struct ibv_context *c, uint32_t lkey, uint64_t addr, uint32_t length)
{
	assert_ptr_equal(c, &context);
	return lkey == 1 ? (void *)(uintptr_t)addr : NULL;
}

void *sr_mr_written(struct ibv_context *c, uint32_t lkey, uint64_t addr, uint32_t length)
{
	return sr_mr_memory(c, lkey, addr, length);
}

static int clocks_read;

bool sr_clocks_peer_is_watched(const struct sr_clock_qp *c)
{
	(void)c;
	return false;
}

void sr_clocks_unwatched(void)
{
}

#define OF_MEMBER 77 /* number of a queue pair of which messages can be left out */

bool sr_clocks_carried_to(const struct ibv_context *device, uint32_t qp_num)
{
	(void)device;
	return qp_num == OF_MEMBER;
}

void sr_clocks_read(struct sr_clock_qp *c)
{
	clocks_read++;
}

static struct ibv_sge sge_at(size_t offset, uint32_t length)
{
	return (struct ibv_sge){.addr = (uintptr_t)memory + offset, .length = length, .lkey = 1};
}

static struct ibv_wc completion(const struct sr_wqe *wqe, enum ibv_wc_status status,
				uint32_t byte_len)
{
	return (struct ibv_wc){
	    .wr_id = (uintptr_t)wqe, .status = status, .byte_len = byte_len, .opcode = IBV_WC_RECV};
}

static void complete(struct ibv_wc *wc)
{
	received.count = received.unproven = 0;
	sr_wq_complete(wc, 1, &received);
}

static void assert_arrived(uint32_t i, size_t offset, uint32_t length)
{
	assert_true(i < proven());
	assert_ptr_equal(received.pieces[i].addr, memory + offset);
	assert_int_equal(received.pieces[i].length, length);
}

static void a_receive_fills_its_list_up_to_byte_len(void **state)
{
	struct sr_wq *wq = sr_wq_create(&context, 3, 16, false);
	struct ibv_sge list[] = {sge_at(0, 10), sge_at(100, 10), sge_at(200, 10)};
	struct ibv_wc wc =
	    completion(sr_wqe_take(wq, 77, SR_WQE_RECV, list, 3), IBV_WC_SUCCESS, 15);

	complete(&wc);
	assert_int_equal(wc.wr_id, 77);
	assert_int_equal(proven(), 2);
	assert_arrived(0, 0, 10);
	assert_arrived(1, 100, 5);
	sr_wq_retire(wq, NULL);
}

static bool is_left_out(struct sr_wqe *wqe)
{
	struct ibv_wc wc = completion(wqe, IBV_WC_SUCCESS, 10);

	wc.qp_num = OF_MEMBER;
	complete(&wc);
	assert_int_equal(proven(), 1);
	return received.pieces[0].left_out;
}

/*
 * The second message may have come over the first one when that is polled, and, if they are of two queue pairs, the first
 * one over the second.
 */
static void a_message_in_a_buffer_of_several_receives_is_not_left_out(void **state)
{
	struct sr_wq *wq = sr_wq_create(&context, 3, 16, false);
	struct ibv_sge common = sge_at(0, 10), alone = sge_at(100, 10);
	struct sr_wqe *wqe[3];

	sr_leaves_out = true;
	for (int i = 0; i < 3; i++) {
		wqe[i] = sr_wqe_take(wq, (uint64_t)i, SR_WQE_RECV, i < 2 ? &common : &alone, 1);
		sr_buffers_post(wqe[i]);
	}
	assert_false(is_left_out(wqe[0]));
	assert_false(is_left_out(wqe[1]));
	assert_true(is_left_out(wqe[2]));
	wqe[0] = sr_wqe_take(wq, 0, SR_WQE_RECV, &common, 1);
	sr_buffers_post(wqe[0]);
	assert_true(is_left_out(wqe[0]));
	sr_leaves_out = false;
	sr_wq_retire(wq, NULL);
}

static void a_flushed_receive_brings_nothing(void **state)
{
	struct sr_wq *wq = sr_wq_create(&context, 1, 16, false);
	struct ibv_sge list = sge_at(0, 10);
	struct ibv_wc wc =
	    completion(sr_wqe_take(wq, 5, SR_WQE_RECV, &list, 1), IBV_WC_WR_FLUSH_ERR, 10);

	complete(&wc);
	assert_int_equal(wc.wr_id, 5);
	assert_int_equal(proven(), 0);
	sr_wq_retire(wq, NULL);
}

/* The first packets of a message may have come; only the first receive of the queue can have begun.
 */
static void the_first_flushed_receive_may_have_brought_bytes(void **state)
{
	struct sr_wq *wq = sr_wq_create(&context, 1, 16, false);
	struct ibv_sge list = sge_at(0, 10), behind = sge_at(10, 10);
	struct ibv_wc first =
	    completion(sr_wqe_take(wq, 5, SR_WQE_RECV, &list, 1), IBV_WC_WR_FLUSH_ERR, 0);
	struct ibv_wc second =
	    completion(sr_wqe_take(wq, 6, SR_WQE_RECV, &behind, 1), IBV_WC_WR_FLUSH_ERR, 0);

	first.qp_num = second.qp_num = 17;
	complete(&first);
	assert_int_equal(received.count, 2);
	assert_int_equal(received.unproven, 2);
	assert_null(received.pieces[0].addr);
	assert_ptr_equal(received.pieces[1].addr, memory);
	complete(&second);
	assert_int_equal(received.count, 0);
	sr_wq_retire(wq, NULL);
}

/* A device that breaks the rules: its program must not hang in the recorder. */
static void a_receive_that_is_reported_twice_is_free_once(void **state)
{
	struct sr_wq *wq = sr_wq_create(&context, 1, 16, false);
	struct sr_wqe *wqe = sr_wqe_take(wq, 5, SR_WQE_RECV, NULL, 0), *taken[128];

	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc = completion(wqe, IBV_WC_SUCCESS, 0);

		complete(&wc);
		assert_int_equal(wc.wr_id, 5);
	}
	for (int i = 0; i < 128; i++) {
		taken[i] = sr_wqe_take(wq, (uint64_t)i, SR_WQE_RECV, NULL, 0);
		for (int j = 0; j < i; j++)
			assert_ptr_not_equal(taken[i], taken[j]);
	}
	for (int i = 0; i < 128; i++)
		sr_wqe_give_back(taken[i]);
	sr_wq_retire(wq, NULL);
}

static void a_write_with_immediate_leaves_the_receive_buffers_alone(void **state)
{
	struct sr_wq *wq = sr_wq_create(&context, 1, 16, false);
	struct ibv_sge list = sge_at(0, 10);
	struct ibv_wc wc =
	    completion(sr_wqe_take(wq, 5, SR_WQE_RECV, &list, 1), IBV_WC_SUCCESS, 10);

	wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	complete(&wc);
	assert_int_equal(proven(), 0);
	sr_wq_retire(wq, NULL);
}

static void memory_of_a_device_is_left_out(void **state)
{
	struct sr_wq *wq = sr_wq_create(&context, 2, 16, false);
	struct ibv_sge list[] = {{.addr = 0, .length = 10, .lkey = 2}, sge_at(50, 10)};
	struct ibv_wc wc = completion(sr_wqe_take(wq, 5, SR_WQE_RECV, list, 2), IBV_WC_SUCCESS, 20);

	complete(&wc);
	assert_int_equal(proven(), 1);
	assert_arrived(0, 50, 10);
	sr_wq_retire(wq, NULL);
}

static void a_wr_id_of_the_programs_own_is_left_alone(void **state)
{
	static const uint64_t ids[] = {0, 1, 8, UINT64_MAX, 0x210000000008ull};

	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct ibv_wc wc = {.wr_id = ids[i]};

		complete(&wc);
		assert_int_equal(wc.wr_id, ids[i]);
	}
}

static struct sr_wqe *post(struct sr_wq *sq, uint64_t wr_id, enum sr_wqe_kind kind,
			   const struct ibv_sge *sge)
{
	struct sr_wqe *wqe = sr_wqe_take(sq, wr_id, kind, sge, sge ? 1 : 0);

	sr_wq_append(sq, wqe);
	return wqe;
}

static void a_completion_stands_for_the_unsignaled_before_it(void **state)
{
	struct sr_wq *sq = sr_wq_create(&context, 1, 16, true);
	struct ibv_sge first = sge_at(0, 8), second = sge_at(8, 8), third = sge_at(16, 8);
	struct sr_wqe *last;
	struct ibv_wc wc;

	post(sq, 1, SR_WQE_FETCH, &first);
	post(sq, 2, SR_WQE_SOURCE, NULL);
	last = post(sq, 3, SR_WQE_FETCH, &second);
	post(sq, 4, SR_WQE_FETCH, &third);
	wc = completion(last, IBV_WC_SUCCESS, 0);
	complete(&wc);
	assert_int_equal(wc.wr_id, 3);
	assert_int_equal(proven(), 2);
	assert_arrived(0, 0, 8);
	assert_arrived(1, 8, 8);
	sr_wq_retire(sq, NULL);
}

/* A reset takes the completions, not the bytes. */
static void an_abandoned_fetch_may_have_brought_bytes(void **state)
{
	struct sr_wq *sq = sr_wq_create(&context, 1, 16, true);
	struct ibv_sge done = sge_at(0, 8), open = sge_at(8, 8);
	struct ibv_wc wc = completion(post(sq, 1, SR_WQE_FETCH, &done), IBV_WC_SUCCESS, 0);

	post(sq, 2, SR_WQE_FETCH, &open);
	complete(&wc);
	received.count = received.unproven = 0;
	sr_wq_abandon(sq, &received);
	assert_int_equal(received.count, 2);
	assert_int_equal(received.unproven, 2);
	assert_ptr_equal(received.pieces[1].addr, memory + 8);
	sr_wq_retire(sq, NULL);
}

static void before_a_failed_request_all_had_succeeded(void **state)
{
	struct sr_wq *sq = sr_wq_create(&context, 1, 16, true);
	struct ibv_sge first = sge_at(0, 8), second = sge_at(8, 8);
	struct ibv_wc wc;

	post(sq, 1, SR_WQE_FETCH, &first);
	wc = completion(post(sq, 2, SR_WQE_FETCH, &second), IBV_WC_REM_ACCESS_ERR, 0);
	complete(&wc);
	assert_int_equal(proven(), 1);
	assert_arrived(0, 0, 8);
	sr_wq_retire(sq, NULL);
}

static void a_refused_post_leaves_no_trace(void **state)
{
	struct sr_wq *sq = sr_wq_create(&context, 1, 16, true);
	struct ibv_sge first = sge_at(0, 8), second = sge_at(8, 8);
	struct sr_wqe *kept = post(sq, 1, SR_WQE_FETCH, &first);
	struct ibv_wc wc;

	sr_wq_unappend(sq, post(sq, 2, SR_WQE_FETCH, &second));
	post(sq, 3, SR_WQE_SOURCE, NULL);
	wc = completion(kept, IBV_WC_SUCCESS, 0);
	complete(&wc);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(proven(), 1);
	wc = completion(post(sq, 4, SR_WQE_SOURCE, NULL), IBV_WC_SUCCESS, 0);
	complete(&wc);
	assert_int_equal(wc.wr_id, 4);
	assert_int_equal(proven(), 0);
	sr_wq_retire(sq, NULL);
}

/* The queue pair is destroyed; its completions are polled later. */
static void a_destroyed_queue_pairs_completions_keep_their_wr_ids(void **state)
{
	struct sr_wq *rq, *sq;
	struct ibv_wc late_receive, late_send;

	sr_cq_add(&cq);
	rq = sr_wq_create(&context, 1, 16, false);
	sq = sr_wq_create(&context, 1, 16, true);
	late_receive = completion(sr_wqe_take(rq, 11, SR_WQE_RECV, NULL, 0), IBV_WC_SUCCESS, 0);
	late_send = completion(post(sq, 12, SR_WQE_SOURCE, NULL), IBV_WC_WR_FLUSH_ERR, 0);
	sr_wq_retire(rq, &cq);
	sr_wq_retire(sq, &cq);
	complete(&late_receive);
	complete(&late_send);
	assert_int_equal(late_receive.wr_id, 11);
	assert_int_equal(late_send.wr_id, 12);
	sr_cq_drained(&cq, sr_cq_retired(&cq));
	assert_null(sr_cq_retired(&cq));
	sr_wq_retire(sr_wq_create(&context, 1, 16, false), &cq);
	sr_cq_free(sr_cq_take(&cq));
}

/*
 * A thread still handles the last completions of a queue while others find the completion queue
 * drained and retire more queues: the memory that the thread reads must still be there.
 */
static void what_another_poll_holds_is_kept(void **state)
{
	struct sr_received slow = {0}, quick = {0};
	struct sr_wq *rq, *next;
	struct ibv_wc wc;

	sr_cq_add(&cq);
	for (uint64_t round = 1; round <= 3; round++) {
		rq = sr_wq_create(&context, 1, 16, false);
		wc = completion(sr_wqe_take(rq, round, SR_WQE_RECV, NULL, 0), IBV_WC_SUCCESS, 0);
		sr_wq_retire(rq, &cq);
		sr_poll_begins(&slow);
		sr_poll_begins(&quick);
		sr_cq_drained(&cq, sr_cq_retired(&cq));
		sr_poll_ends(&quick);
		for (int i = 0; i < 4; i++) {
			next = sr_wq_create(&context, 1, 16, false);
			sr_wqe_take(next, 77, SR_WQE_RECV, NULL, 0);
			sr_wq_retire(next, &cq);
			sr_poll_begins(&quick);
			sr_cq_drained(&cq, sr_cq_retired(&cq));
			sr_poll_ends(&quick);
		}
		assert_int_equal(sr_wq_complete(&wc, 1, &received), 1);
		assert_int_equal(wc.wr_id, round);
		sr_poll_ends(&slow);
	}
	sr_poller_ends(&slow);
	sr_poller_ends(&quick);
	sr_cq_free(sr_cq_take(&cq));
}

/* A queue that is retired after a poll has begun may still have completions in the queue. */
static void what_is_retired_during_a_poll_is_kept(void **state)
{
	struct sr_wq *before = sr_wq_create(&context, 1, 16, false),
		     *during = sr_wq_create(&context, 1, 16, false);
	struct sr_wq *seen;
	struct ibv_wc late;

	sr_cq_add(&cq);
	sr_wqe_take(before, 1, SR_WQE_RECV, NULL, 0);
	late = completion(sr_wqe_take(during, 2, SR_WQE_RECV, NULL, 0), IBV_WC_SUCCESS, 0);
	sr_wq_retire(before, &cq);
	seen = sr_cq_retired(&cq);
	sr_wq_retire(during, &cq);
	sr_cq_drained(&cq, seen);
	assert_ptr_equal(sr_cq_retired(&cq), during);
	complete(&late);
	assert_int_equal(late.wr_id, 2);
	sr_cq_free(sr_cq_take(&cq));
}

/* Two threads poll one completion queue: the later completion may be reported first. */
static void completions_told_in_another_order_keep_their_wr_ids(void **state)
{
	struct sr_wq *sq = sr_wq_create(&context, 1, 16, true);
	struct ibv_sge list = sge_at(0, 8);
	struct sr_wqe *first = post(sq, 1, SR_WQE_FETCH, &list),
		      *second = post(sq, 2, SR_WQE_SOURCE, NULL);
	struct ibv_wc wc = completion(second, IBV_WC_SUCCESS, 0);

	first->request.signaled = second->request.signaled = true;
	complete(&wc);
	assert_int_equal(wc.wr_id, 2);
	assert_arrived(0, 0, 8);
	/* Requests posted meanwhile must not get the first one's place. */
	for (uint64_t n = 0; n < 100; n++)
		post(sq, 100 + n, SR_WQE_SOURCE, NULL);
	wc = completion(first, IBV_WC_SUCCESS, 0);
	complete(&wc);
	assert_int_equal(wc.wr_id, 1);
	assert_arrived(0, 0, 8);
	sr_wq_retire(sq, NULL);
}

/* After an error each request has a completion, including unsignaled requests. */
static void flushes_told_in_another_order_keep_their_wr_ids(void **state)
{
	struct sr_wq *sq = sr_wq_create(&context, 1, 16, true);
	struct sr_wqe *failed = post(sq, 1, SR_WQE_SOURCE, NULL);
	struct ibv_wc wc = completion(post(sq, 2, SR_WQE_SOURCE, NULL), IBV_WC_WR_FLUSH_ERR, 0);

	complete(&wc);
	assert_int_equal(wc.wr_id, 2);
	post(sq, 3, SR_WQE_SOURCE, NULL);
	wc = completion(failed, IBV_WC_REM_ACCESS_ERR, 0);
	complete(&wc);
	assert_int_equal(wc.wr_id, 1);
	sr_wq_retire(sq, NULL);
}

/* The failure is reported after a flush that it caused: two threads poll. */
static void a_flush_does_not_vouch_for_a_read_that_failed(void **state)
{
	struct sr_wq *sq = sr_wq_create(&context, 1, 16, true);
	struct ibv_sge lists[] = {sge_at(0, 8), sge_at(8, 8), sge_at(16, 8)};
	struct sr_wqe *failed;
	struct ibv_wc wc;

	failed = post(sq, 1, SR_WQE_FETCH, &lists[0]);
	failed->request.signaled = true;
	wc = completion(post(sq, 2, SR_WQE_FETCH, &lists[1]), IBV_WC_WR_FLUSH_ERR, 0);
	complete(&wc);
	assert_int_equal(wc.wr_id, 2);
	assert_int_equal(proven(), 0);
	wc = completion(failed, IBV_WC_REM_ACCESS_ERR, 0);
	complete(&wc);
	assert_int_equal(wc.wr_id, 1);
	assert_int_equal(proven(), 0);
	/* From here on all requests are flushed, reported in any order. */
	post(sq, 3, SR_WQE_FETCH, &lists[2]);
	wc = completion(post(sq, 4, SR_WQE_SOURCE, NULL), IBV_WC_WR_FLUSH_ERR, 0);
	complete(&wc);
	assert_int_equal(proven(), 0);
	sr_wq_retire(sq, NULL);
}

/* An unsignaled READ, then the program puts the queue pair into error. */
static void a_flush_vouches_for_what_was_unsignaled(void **state)
{
	struct sr_wq *sq = sr_wq_create(&context, 1, 16, true);
	struct ibv_sge list = sge_at(0, 8);
	struct ibv_wc wc;

	post(sq, 1, SR_WQE_FETCH, &list);
	wc = completion(post(sq, 2, SR_WQE_SOURCE, NULL), IBV_WC_WR_FLUSH_ERR, 0);
	complete(&wc);
	assert_int_equal(proven(), 1);
	assert_arrived(0, 0, 8);
	sr_wq_retire(sq, NULL);
}

/*
 * A queue pair in the error state accepts requests and flushes them for as long as the
 * program likes.
 */
static void flushed_requests_are_used_again(void **state)
{
	struct sr_wq *sq = sr_wq_create(&context, 1, 16, true);
	struct sr_wqe *seen[1000];
	int distinct = 0;

	for (int n = 0; n < 1000; n++) {
		bool again = false;
		struct ibv_wc wc;

		seen[n] = post(sq, (uint64_t)n, SR_WQE_SOURCE, NULL);
		wc = completion(seen[n], IBV_WC_WR_FLUSH_ERR, 0);
		complete(&wc);
		assert_int_equal(wc.wr_id, n);
		for (int i = 0; i < n && !again; i++)
			again = seen[i] == seen[n];
		distinct += !again;
	}
	assert_true(distinct <= 64);
	sr_wq_retire(sq, NULL);
}

/* One poll, completions of three queues in turn. */
static void a_poll_of_several_queues(void **state)
{
	enum { QUEUES = 3, EACH = 5 };
	struct sr_wq *queues[QUEUES];
	struct ibv_wc wc[QUEUES * EACH];

	for (int i = 0; i < QUEUES; i++)
		queues[i] = sr_wq_create(&context, 1, 16, i > 0);
	for (int i = 0; i < QUEUES * EACH; i++) {
		struct sr_wq *wq = queues[i % QUEUES];
		uint64_t id = 100 + (uint64_t)i;

		wc[i] = completion(i % QUEUES ? post(wq, id, SR_WQE_SOURCE, NULL)
					      : sr_wqe_take(wq, id, SR_WQE_RECV, NULL, 0),
				   IBV_WC_SUCCESS, 0);
	}
	sr_wq_complete(wc, QUEUES * EACH, &received);
	for (int i = 0; i < QUEUES * EACH; i++)
		assert_int_equal(wc[i].wr_id, 100 + i);
	for (int i = 0; i < QUEUES; i++)
		sr_wq_retire(queues[i], NULL);
}

enum { STORM = 200000, STORM_DEPTH = 64 };

/*
 * A send queue between two threads: wr_ids pass through a ring from one to the other, as on
 * a device.
 */
struct storm {
	struct sr_wq *sq;
	_Atomic uint64_t head, tail;
	uint64_t ring[STORM_DEPTH];
	uint64_t wrong;
};

static void *poll_storm(void *argument)
{
	struct storm *s = argument;

	for (uint64_t told = 0; told < STORM; told++) {
		struct ibv_wc wc = {.status = IBV_WC_SUCCESS};

		while (atomic_load_explicit(&s->head, memory_order_acquire) == told)
			sched_yield();
		wc.wr_id = s->ring[told % STORM_DEPTH];
		atomic_store_explicit(&s->tail, told + 1, memory_order_release);
		sr_wq_complete(&wc, 1, &received);
		s->wrong += wc.wr_id != told;
	}
	return NULL;
}

static void one_thread_posts_and_another_polls(void **state)
{
	static struct storm s;
	pthread_t poller;

	s.sq = sr_wq_create(&context, 1, STORM_DEPTH, true);
	assert_int_equal(pthread_create(&poller, NULL, poll_storm, &s), 0);
	for (uint64_t n = 0; n < STORM; n++) {
		struct sr_wqe *wqe;

		while (n - atomic_load_explicit(&s.tail, memory_order_acquire) == STORM_DEPTH)
			sched_yield();
		sr_wq_lock_posts(s.sq);
		/* Sometimes a later request is refused. */
		wqe = post(s.sq, n, SR_WQE_SOURCE, NULL);
		wqe->request.signaled = true;
		if (n % 7 == 0)
			sr_wq_unappend(s.sq, post(s.sq, n, SR_WQE_SOURCE, NULL));
		s.ring[n % STORM_DEPTH] = (uintptr_t)wqe;
		atomic_store_explicit(&s.head, n + 1, memory_order_release);
		sr_wq_unlock_posts(s.sq);
	}
	pthread_join(poller, NULL);
	assert_int_equal(s.wrong, 0);
	sr_wq_retire(s.sq, NULL);
}

/* Random posts, each with its own wr_id, completed at random in the order of the queue. */
static void random_sends_come_back_in_order(void **state)
{
	enum { ROUNDS = 100000, EXPOSED = 300 };
	static struct sr_wqe *posted[ROUNDS];
	static uint32_t offsets[ROUNDS];
	struct sr_wq *sq = sr_wq_create(&context, 1, 16, true);
	int head = 0;

	srand(3);
	for (int n = 0; n < ROUNDS; n++) {
		struct ibv_sge sge;

		offsets[n] = (uint32_t)rand() % 60000;
		sge = sge_at(offsets[n], 1 + offsets[n] % 64);
		posted[n] =
		    post(sq, 1000 + (uint64_t)n, offsets[n] % 2 ? SR_WQE_FETCH : SR_WQE_SOURCE,
			 offsets[n] % 2 ? &sge : NULL);
		while (n - head > rand() % EXPOSED) {
			int done = head + rand() % (n - head + 1);
			struct ibv_wc wc = completion(posted[done], IBV_WC_SUCCESS, 0);
			uint32_t i = 0;

			complete(&wc);
			assert_int_equal(wc.wr_id, 1000 + done);
			for (; head <= done; head++)
				if (offsets[head] % 2)
					assert_arrived(i++, offsets[head], 1 + offsets[head] % 64);
			assert_int_equal(i, proven());
		}
	}
	sr_wq_retire(sq, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_receive_fills_its_list_up_to_byte_len),
	    cmocka_unit_test(a_message_in_a_buffer_of_several_receives_is_not_left_out),
	    cmocka_unit_test(a_flushed_receive_brings_nothing),
	    cmocka_unit_test(the_first_flushed_receive_may_have_brought_bytes),
	    cmocka_unit_test(an_abandoned_fetch_may_have_brought_bytes),
	    cmocka_unit_test(a_receive_that_is_reported_twice_is_free_once),
	    cmocka_unit_test(a_write_with_immediate_leaves_the_receive_buffers_alone),
	    cmocka_unit_test(memory_of_a_device_is_left_out),
	    cmocka_unit_test(a_wr_id_of_the_programs_own_is_left_alone),
	    cmocka_unit_test(a_completion_stands_for_the_unsignaled_before_it),
	    cmocka_unit_test(before_a_failed_request_all_had_succeeded),
	    cmocka_unit_test(a_refused_post_leaves_no_trace),
	    cmocka_unit_test(a_destroyed_queue_pairs_completions_keep_their_wr_ids),
	    cmocka_unit_test(what_another_poll_holds_is_kept),
	    cmocka_unit_test(what_is_retired_during_a_poll_is_kept),
	    cmocka_unit_test(completions_told_in_another_order_keep_their_wr_ids),
	    cmocka_unit_test(flushes_told_in_another_order_keep_their_wr_ids),
	    cmocka_unit_test(a_flush_does_not_vouch_for_a_read_that_failed),
	    cmocka_unit_test(a_flush_vouches_for_what_was_unsignaled),
	    cmocka_unit_test(flushed_requests_are_used_again),
	    cmocka_unit_test(a_poll_of_several_queues),
	    cmocka_unit_test(one_thread_posts_and_another_polls),
	    cmocka_unit_test(random_sends_come_back_in_order),
	};

	return cmocka_run_group_tests_name("wq", tests, NULL, NULL);
}
