/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_matching.c: which request a completion belongs to. Individual cases, and a
 * comparison with a naive model of devices with many queue pairs on one completion queue.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "logd/base/matching.h"

enum { MOST = 4096 };

/* A request of the test, and what was reported about it. */
struct request {
	struct sr_send_request r;
	int succeeded, failed, left, passed;
};

static struct request *request_of(struct sr_send_request *r)
{
	return (struct request *)((char *)r - offsetof(struct request, r));
}

static void passed(void *owner, struct sr_send_request *r)
{
	request_of(r)->passed++;
}

static void ended(void *owner, struct sr_send_request *r, bool succeeded)
{
	assert_int_equal(request_of(r)->left, 0);
	if (succeeded)
		request_of(r)->succeeded++;
	else
		request_of(r)->failed++;
}

static void left(void *owner, struct sr_send_request *r)
{
	request_of(r)->left++;
	/* It may be freed: nothing may follow its links. */
	r->next = r->previous = (void *)8;
}

static const struct sr_send_events events = {passed, ended, left};

static void post(struct sr_send_queue *q, struct request *r, uint64_t wr_id, bool signaled)
{
	*r = (struct request){.r = {.wr_id = wr_id, .signaled = signaled}};
	sr_send_queue_post(q, &r->r);
}

/* The request that a completion belongs to; NULL if there is none. */
static struct request *complete(struct sr_send_queue *q, uint64_t wr_id, enum ibv_wc_status status)
{
	struct sr_send_request *r = sr_send_queue_find(q, wr_id, status, IBV_WC_SEND);

	if (!r)
		return NULL;
	sr_send_queue_complete(q, r, status, &events, NULL);
	return request_of(r);
}

static void a_completion_ends_the_unsignaled_in_front_of_it(void **state)
{
	struct sr_send_queue q;
	struct request r[4];

	sr_send_queue_init(&q);
	post(&q, &r[0], 1, false);
	post(&q, &r[1], 1, false);
	post(&q, &r[2], 1, true);
	post(&q, &r[3], 1, true);
	assert_ptr_equal(complete(&q, 1, IBV_WC_SUCCESS), &r[2]);
	for (int i = 0; i < 3; i++)
		assert_true(r[i].succeeded == 1 && r[i].left == 1 && r[i].passed == 1);
	assert_true(!r[3].succeeded && !r[3].left);
	assert_ptr_equal(complete(&q, 1, IBV_WC_SUCCESS), &r[3]);
	assert_null(complete(&q, 1, IBV_WC_SUCCESS));
	assert_int_equal(q.count, 0);
}

static void an_overtaken_request_is_found_by_its_own_completion(void **state)
{
	struct sr_send_queue q;
	struct request r[3];

	sr_send_queue_init(&q);
	for (int i = 0; i < 3; i++)
		post(&q, &r[i], (uint64_t)i, true);
	assert_ptr_equal(complete(&q, 2, IBV_WC_SUCCESS), &r[2]);
	assert_true(r[0].succeeded == 1 && !r[0].left && r[1].succeeded == 1 && !r[1].left);
	assert_ptr_equal(sr_send_queue_next(&q, NULL), &r[0].r);
	assert_ptr_equal(sr_send_queue_next(&q, &r[0].r), &r[1].r);
	assert_null(sr_send_queue_next(&q, &r[1].r));
	assert_ptr_equal(complete(&q, 1, IBV_WC_SUCCESS), &r[1]);
	assert_ptr_equal(complete(&q, 0, IBV_WC_SUCCESS), &r[0]);
	assert_true(r[0].left == 1 && r[1].left == 1 && r[2].left == 1);
	assert_int_equal(q.count, 0);
}

static void in_front_of_a_failure_all_succeeded_and_behind_it_all_are_flushed(void **state)
{
	struct sr_send_queue q;
	struct request r[4];

	sr_send_queue_init(&q);
	for (int i = 0; i < 4; i++)
		post(&q, &r[i], (uint64_t)i, false);
	assert_ptr_equal(complete(&q, 1, IBV_WC_REM_ACCESS_ERR), &r[1]);
	assert_true(r[0].succeeded == 1 && r[1].failed == 1);
	assert_ptr_equal(complete(&q, 3, IBV_WC_WR_FLUSH_ERR), &r[3]);
	assert_true(!r[2].succeeded && r[2].failed == 1);
	assert_ptr_equal(complete(&q, 2, IBV_WC_WR_FLUSH_ERR), &r[2]);
	assert_true(!r[2].succeeded && r[2].left == 1);
}

static void a_flush_that_is_reported_first_vouches_for_the_unsignaled_only(void **state)
{
	struct sr_send_queue q;
	struct request r[3];

	sr_send_queue_init(&q);
	post(&q, &r[0], 0, false);
	post(&q, &r[1], 1, true);
	post(&q, &r[2], 2, true);
	assert_ptr_equal(complete(&q, 2, IBV_WC_WR_FLUSH_ERR), &r[2]);
	assert_true(r[0].succeeded == 1 && !r[1].succeeded);
	assert_ptr_equal(complete(&q, 1, IBV_WC_RETRY_EXC_ERR), &r[1]);
	assert_int_equal(r[1].succeeded, 0);
}

/* The first flush belongs to one of two requests; only the program may know to which. */
static void a_flush_with_a_wr_id_of_several_vouches_for_none_of_them(void **state)
{
	struct sr_send_queue q;
	struct request r[4];

	sr_send_queue_init(&q);
	post(&q, &r[0], 1, false);
	post(&q, &r[1], 7, false);
	post(&q, &r[2], 7, false);
	post(&q, &r[3], 8, false);
	assert_ptr_equal(complete(&q, 7, IBV_WC_WR_FLUSH_ERR), &r[1]);
	assert_int_equal(r[0].succeeded, 1);
	assert_ptr_equal(complete(&q, 8, IBV_WC_WR_FLUSH_ERR), &r[3]);
	assert_int_equal(r[2].succeeded, 0);
}

/* A failure that may be a receive's: nothing is known of the sends until one succeeds. */
static void a_failure_of_an_unknown_request_leaves_doubt(void **state)
{
	struct sr_send_queue q;
	struct request r[5];

	sr_send_queue_init(&q);
	for (int i = 0; i < 5; i++)
		post(&q, &r[i], (uint64_t)i, i == 4);
	sr_send_queue_doubt(&q);
	assert_ptr_equal(complete(&q, 1, IBV_WC_WR_FLUSH_ERR), &r[1]);
	assert_int_equal(r[0].succeeded, 0);
	assert_ptr_equal(complete(&q, 4, IBV_WC_SUCCESS), &r[4]);
	assert_true(r[2].succeeded == 1 && r[3].succeeded == 1);
	post(&q, &r[2], 2, false);
	post(&q, &r[3], 3, false);
	assert_ptr_equal(complete(&q, 3, IBV_WC_WR_FLUSH_ERR), &r[3]);
	assert_int_equal(r[2].succeeded, 1);
}

static void what_completed_before_a_reset_may_be_polled_after_it(void **state)
{
	struct sr_send_queue q;
	struct request r[4];

	sr_send_queue_init(&q);
	post(&q, &r[0], 7, true);
	post(&q, &r[1], 7, true);
	assert_ptr_equal(complete(&q, 7, IBV_WC_REM_ACCESS_ERR), &r[0]);
	sr_send_queue_reset(&q);
	post(&q, &r[2], 8, false);
	post(&q, &r[3], 8, true);
	assert_true(sr_send_queue_is_stale(&q, &r[1].r) && !sr_send_queue_is_stale(&q, &r[2].r));
	assert_ptr_equal(complete(&q, 7, IBV_WC_WR_FLUSH_ERR), &r[1]);
	assert_ptr_equal(complete(&q, 8, IBV_WC_SUCCESS), &r[3]);
	assert_true(r[2].succeeded == 1 && r[3].succeeded == 1);
	assert_int_equal(q.count, 0);
}

/*
 * Requests that a reset dropped have the wr_ids of today's: what completes next is the first
 * signaled one from before the reset or from after it, and the opcode tells which.
 */
static void after_a_reset_the_order_tells_requests_with_one_wr_id(void **state)
{
	struct sr_send_queue q;
	struct request r[6];

	sr_send_queue_init(&q);
	for (int i = 0; i < 6; i++) {
		if (i == 3)
			sr_send_queue_reset(&q);
		post(&q, &r[i], i == 0 ? 8 : 7, i != 3);
		r[i].r.completes_as = i == 5 ? IBV_WC_RDMA_WRITE : IBV_WC_SEND;
	}
	r[0].r.completes_as = IBV_WC_RDMA_WRITE;
	assert_ptr_equal(sr_send_queue_find(&q, 8, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE), &r[0].r);
	assert_ptr_equal(complete(&q, 7, IBV_WC_SUCCESS), &r[4]);
	assert_true(r[3].succeeded == 1 && !r[1].succeeded && r[0].left && r[1].left && r[2].left);
	assert_ptr_equal(complete(&q, 7, IBV_WC_SUCCESS), &r[5]);
	assert_int_equal(q.count, 0);
}

/* Where a completion is missing, the opcode still tells which of several with one wr_id it is. */
static void the_opcode_decides_between_several_with_one_wr_id(void **state)
{
	struct sr_send_queue q;
	struct request r[2];

	sr_send_queue_init(&q);
	for (int i = 0; i < 2; i++)
		post(&q, &r[i], 7, true);
	r[1].r.completes_as = IBV_WC_RDMA_READ;
	assert_ptr_equal(sr_send_queue_find(&q, 7, IBV_WC_SUCCESS, IBV_WC_RDMA_READ), &r[1].r);
	assert_ptr_equal(sr_send_queue_find(&q, 7, IBV_WC_SUCCESS, IBV_WC_SEND), &r[0].r);
	assert_ptr_equal(sr_send_queue_find(&q, 7, IBV_WC_SUCCESS, IBV_WC_BIND_MW), &r[0].r);
	assert_ptr_equal(sr_send_queue_find(&q, 7, IBV_WC_WR_FLUSH_ERR, IBV_WC_RDMA_READ), &r[0].r);
}

/*
 * Nothing is known about requests that the reset dropped, and a failure before the reset
 * says nothing about later requests.
 */
static void a_reset_drops_what_has_no_completion(void **state)
{
	struct sr_send_queue q;
	struct request r[4];

	sr_send_queue_init(&q);
	post(&q, &r[0], 7, true);
	assert_ptr_equal(complete(&q, 7, IBV_WC_REM_ACCESS_ERR), &r[0]);
	post(&q, &r[1], 7, false);
	sr_send_queue_reset(&q);
	post(&q, &r[2], 8, false);
	post(&q, &r[3], 9, false);
	assert_ptr_equal(complete(&q, 9, IBV_WC_WR_FLUSH_ERR), &r[3]);
	assert_true(!r[1].succeeded && !r[1].failed && r[1].left == 1);
	assert_int_equal(r[2].succeeded, 1);
}

static void a_request_is_taken_out_from_wherever_it_is(void **state)
{
	struct sr_send_queue q;
	struct request r[5];

	sr_send_queue_init(&q);
	for (int i = 0; i < 5; i++)
		post(&q, &r[i], (uint64_t)i, true);
	assert_ptr_equal(complete(&q, 1, IBV_WC_SUCCESS), &r[1]);
	sr_send_queue_remove(&q, &r[0].r);
	sr_send_queue_remove(&q, &r[3].r);
	sr_send_queue_remove(&q, &r[4].r);
	post(&q, &r[3], 3, true);
	assert_ptr_equal(sr_send_queue_next(&q, NULL), &r[2].r);
	assert_ptr_equal(sr_send_queue_next(&q, &r[2].r), &r[3].r);
	assert_ptr_equal(sr_send_queue_pop(&q), &r[2].r);
	assert_ptr_equal(complete(&q, 3, IBV_WC_SUCCESS), &r[3]);
	assert_null(sr_send_queue_pop(&q));
	assert_int_equal(q.count, 0);
}

static void a_queue_that_lacks_completions_stays_bounded(void **state)
{
	enum { POSTS = SR_SEND_QUEUE_MAX * 2 };
	static struct request r[POSTS];
	struct sr_send_queue q;

	sr_send_queue_init(&q);
	for (int i = 0; i < POSTS; i++)
		post(&q, &r[i], (uint64_t)i, true);
	assert_ptr_equal(complete(&q, POSTS - 1, IBV_WC_SUCCESS), &r[POSTS - 1]);
	assert_int_equal(q.count, SR_SEND_QUEUE_MAX);
	assert_int_equal(r[0].left, 1);
	for (uint32_t n = 0; n < SR_SEND_QUEUE_MAX; n++)
		assert_non_null(sr_send_queue_pop(&q));
	assert_null(sr_send_queue_pop(&q));
}

static void receives_complete_in_order_and_shared_ones_by_wr_id(void **state)
{
	struct sr_recv_request r[4];
	struct sr_recv_queue q = {0};

	for (int i = 0; i < 4; i++) {
		r[i] = (struct sr_recv_request){.wr_id = (uint64_t)i % 2};
		sr_recv_queue_post(&q, &r[i]);
	}
	assert_ptr_equal(sr_recv_queue_match(&q, false, 1), &r[0]);
	assert_ptr_equal(sr_recv_queue_match(&q, true, 1), &r[1]);
	assert_ptr_equal(sr_recv_find(r[1].next, 1), &r[3]);
	sr_recv_queue_remove(&q, &r[1]);
	sr_recv_queue_remove(&q, &r[3]);
	assert_ptr_equal(q.last, &r[2]);
	assert_ptr_equal(sr_recv_queue_pop(&q), &r[0]);
	assert_ptr_equal(sr_recv_queue_pop(&q), &r[2]);
	assert_null(sr_recv_queue_pop(&q));
	sr_recv_queue_post(&q, &r[0]);
	assert_ptr_equal(sr_recv_queue_pop(&q), &r[0]);
}

/* ---------------------------------------------------------------- random */

/*
 * A naive device: an array of all posted requests with the status that the device gave
 * them, and what the matching should have reported.
 */
struct model {
	struct sr_send_queue q;
	struct request *requests;
	enum ibv_wc_status status[MOST];
	bool passed[MOST], reported[MOST];
	int succeeded[MOST]; /* how often it should have been said */
	int posted, done;
	bool broken, failure_reported;
};

struct wc {
	int queue, index;
	enum ibv_wc_status status;
};

enum { QUEUES = 3 };

static struct model models[QUEUES];
static struct wc cq[QUEUES * MOST];
static int cq_first, cq_last;

/* The device is done with the next request. */
static void device_step(int queue)
{
	struct model *m = &models[queue];
	int i = m->done++;
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	if (m->broken)
		status = IBV_WC_WR_FLUSH_ERR;
	else if (rand() % 200 == 0)
		status = IBV_WC_REM_ACCESS_ERR;
	m->status[i] = status;
	m->broken |= status != IBV_WC_SUCCESS;
	if (m->requests[i].r.signaled || status != IBV_WC_SUCCESS)
		cq[cq_last++] = (struct wc){queue, i, status};
}

/* Applies the same rules to all requests that were ever posted. */
static void model_complete(struct model *m, int done, enum ibv_wc_status status)
{
	for (int i = 0; i < done; i++) {
		bool signaled = m->requests[i].r.signaled;

		if (m->passed[i] || m->reported[i] || m->passed[done])
			continue;
		m->passed[i] = true;
		if (status == IBV_WC_SUCCESS)
			m->reported[i] = !signaled;
		if (status == IBV_WC_SUCCESS ||
		    (!m->failure_reported && (status != IBV_WC_WR_FLUSH_ERR || !signaled)))
			m->succeeded[i]++;
	}
	if (status != IBV_WC_WR_FLUSH_ERR)
		m->failure_reported = status != IBV_WC_SUCCESS;
	m->passed[done] = m->reported[done] = true;
	m->succeeded[done] += status == IBV_WC_SUCCESS;
}

static void compare(const struct model *m)
{
	for (int i = 0; i < m->posted; i++) {
		const struct request *r = &m->requests[i];

		assert_int_equal(r->passed, m->passed[i]);
		assert_int_equal(r->succeeded, m->succeeded[i]);
		assert_int_equal(r->left, m->reported[i]);
	}
}

/* wr_ids of the requests: all different, one for all, or a few. */
enum ids { OWN, ONE, FEW };

static uint64_t new_id(enum ids ids, int n)
{
	return ids == OWN ? 100 + (uint64_t)n : ids == ONE ? 5 : (uint64_t)rand() % 3;
}

/* With one polling thread, nothing wrong is ever reported about a request. */
static void assert_sound(const struct model *m)
{
	for (int i = 0; i < m->posted; i++) {
		assert_true(m->requests[i].left <= 1);
		if (m->requests[i].succeeded)
			assert_int_equal(m->status[i], IBV_WC_SUCCESS);
	}
}

static void check(const struct model *m, bool in_order, enum ids ids)
{
	if (ids != FEW)
		compare(m);
	if (in_order)
		assert_sound(m);
}

static void poll_one(bool in_order, enum ids ids)
{
	int window = cq_last - cq_first < 8 ? cq_last - cq_first : 8;
	int at = cq_first + (in_order ? 0 : rand() % window);
	struct wc wc = cq[at];
	struct model *m = &models[wc.queue];
	struct request *found;

	cq[at] = cq[cq_first++];
	found = complete(&m->q, m->requests[wc.index].r.wr_id, wc.status);
	assert_true(found == &m->requests[wc.index] || (ids == FEW && m->broken));
	model_complete(m, wc.index, wc.status);
}

static void run(unsigned seed, bool in_order, enum ids ids)
{
	srand(seed);
	cq_first = cq_last = 0;
	for (int i = 0; i < QUEUES; i++) {
		free(models[i].requests);
		memset(&models[i], 0, sizeof(models[i]));
		models[i].requests = calloc(MOST, sizeof(struct request));
		sr_send_queue_init(&models[i].q);
	}
	for (int step = 0; step < MOST; step++) {
		int queue = rand() % QUEUES;
		struct model *m = &models[queue];

		if (m->posted < MOST && rand() % 2) {
			post(&m->q, &m->requests[m->posted], new_id(ids, m->posted),
			     ids == ONE || rand() % 3 == 0);
			m->posted++;
		}
		if (m->done < m->posted && rand() % 2)
			device_step(queue);
		if (cq_first < cq_last && rand() % 2)
			poll_one(in_order, ids);
		if (step % 64 == 0)
			check(m, in_order, ids);
	}
	while (cq_first < cq_last)
		poll_one(in_order, ids);
	for (int i = 0; i < QUEUES; i++)
		check(&models[i], in_order, ids);
}

/* One thread polls: wr_ids may be all the same, if all requests are signaled. */
static void random_posts_polled_in_order(void **state)
{
	for (unsigned seed = 1; seed <= 200; seed++)
		run(seed, true, seed % 2 ? ONE : OWN);
}

static void random_posts_with_few_wr_ids(void **state)
{
	for (unsigned seed = 1; seed <= 200; seed++)
		run(seed, true, FEW);
}

/* Several threads poll, and report what they found in any order. */
static void random_posts_reported_in_any_order(void **state)
{
	for (unsigned seed = 1; seed <= 200; seed++)
		run(seed, false, OWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_completion_ends_the_unsignaled_in_front_of_it),
	    cmocka_unit_test(an_overtaken_request_is_found_by_its_own_completion),
	    cmocka_unit_test(in_front_of_a_failure_all_succeeded_and_behind_it_all_are_flushed),
	    cmocka_unit_test(a_flush_that_is_reported_first_vouches_for_the_unsignaled_only),
	    cmocka_unit_test(a_flush_with_a_wr_id_of_several_vouches_for_none_of_them),
	    cmocka_unit_test(a_failure_of_an_unknown_request_leaves_doubt),
	    cmocka_unit_test(what_completed_before_a_reset_may_be_polled_after_it),
	    cmocka_unit_test(after_a_reset_the_order_tells_requests_with_one_wr_id),
	    cmocka_unit_test(the_opcode_decides_between_several_with_one_wr_id),
	    cmocka_unit_test(a_reset_drops_what_has_no_completion),
	    cmocka_unit_test(a_request_is_taken_out_from_wherever_it_is),
	    cmocka_unit_test(a_queue_that_lacks_completions_stays_bounded),
	    cmocka_unit_test(receives_complete_in_order_and_shared_ones_by_wr_id),
	    cmocka_unit_test(random_posts_polled_in_order),
	    cmocka_unit_test(random_posts_with_few_wr_ids),
	    cmocka_unit_test(random_posts_reported_in_any_order),
	};

	return cmocka_run_group_tests_name("matching", tests, NULL, NULL);
}
