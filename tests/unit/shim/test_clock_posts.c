/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_clock_posts.c: the program sees nothing of the shim's own requests around its own.
 * Their completions are removed; a READER's completion stands for the request before it,
 * and a CLOCK's failure becomes that of the request after it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shim/core/call.h"
#include "shim/core/thread.h"
#include "shim/verbs/clock_posts.h"
#include "shim/verbs/clocks/clocks.h"

static char memory[64];
static struct ibv_context context;
static struct sr_received received;

static uint32_t proven(void)
{
	return received.count - received.unproven;
}
static struct sr_clock_qp clock_qp;
static int clocks_read;

/* The parts of the shim that clock_posts.c and wq.c use. */
const struct sr_call_desc sr_calls[SR_CALL_COUNT];

uint64_t sr_real(const struct sr_call_desc *d, const uint64_t *a)
{
	return 0;
}

bool sr_clocks_peer_is_watched(const struct sr_clock_qp *c)
{
	(void)c;
	return false;
}

void sr_clocks_unwatched(void)
{
}

bool sr_clocks_carried_to(const struct ibv_context *device, uint32_t qp_num)
{
	(void)device;
	(void)qp_num;
	return false;
}

void sr_clocks_read(struct sr_clock_qp *c)
{
	assert_ptr_equal(c, &clock_qp);
	clocks_read++;
}

void *sr_mr_memory(struct ibv_context *c, uint32_t lkey, uint64_t addr, uint32_t length)
{
	return (void *)(uintptr_t)addr;
}

void *sr_mr_written(struct ibv_context *c, uint32_t lkey, uint64_t addr, uint32_t length)
{
	return sr_mr_memory(c, lkey, addr, length);
}

/* A READ followed by a READER, or an atomic with a CLOCK before it, too. */
struct posts {
	struct sr_qp q;
	struct sr_wqe *clock, *program, *reader;
};

static void begin(struct posts *p)
{
	*p = (struct posts){.q.clock = &clock_qp};
	p->q.sq = sr_wq_create(&context, 1, 16, true);
	sr_wq_set_clock(p->q.sq, &clock_qp);
	clocks_read = 0;
	received.count = received.unproven = 0;
}

static void post(struct posts *p, enum ibv_wr_opcode opcode, uint64_t wr_id, bool signaled)
{
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 8};
	bool fetches = opcode != IBV_WR_RDMA_WRITE;

	p->program = sr_wqe_take(p->q.sq, wr_id, fetches ? SR_WQE_FETCH : SR_WQE_SOURCE,
				 fetches ? &sge : NULL, fetches);
	p->program->request.signaled = signaled;
	p->clock = p->reader = NULL;
	if (sr_clock_goes_before(opcode)) {
		p->clock = sr_clock_take_before(&p->q, p->program);
		sr_wq_append(p->q.sq, p->clock);
	}
	sr_wq_append(p->q.sq, p->program);
	if (fetches) {
		p->reader = sr_clock_take_behind(&p->q, p->program, opcode);
		sr_wq_append(p->q.sq, p->reader);
	}
}

static struct ibv_wc completion(const struct sr_wqe *wqe, enum ibv_wc_status status)
{
	return (struct ibv_wc){.wr_id = (uintptr_t)wqe, .status = status, .vendor_err = status * 3};
}

/* Passes the completions of one poll; returns how many of them the program sees. */
static int seen(struct ibv_wc *wc, int n)
{
	received.count = received.unproven = 0;
	return sr_wq_complete(wc, n, &received);
}

static void a_reader_completes_for_the_request_in_front_of_it(void **state)
{
	struct posts p;
	struct ibv_wc wc;

	begin(&p);
	post(&p, IBV_WR_ATOMIC_FETCH_AND_ADD, 7, true);
	wc = completion(p.reader, IBV_WC_SUCCESS);
	wc.opcode = IBV_WC_RDMA_READ;
	wc.byte_len = 100;
	assert_int_equal(seen(&wc, 1), 1);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(clocks_read, 1);
	assert_int_equal(proven(), 1);
	assert_int_equal(sr_wq_passed(p.q.sq), 1);
	sr_wq_retire(p.q.sq, NULL);
}

static uint64_t where_a_clock_goes(struct sr_qp *q)
{
	struct sr_wqe *wqe = sr_clock_take_before(q, NULL);
	struct ibv_send_wr wr;

	sr_clock_fill_before(q, wqe, &wr);
	sr_wqe_give_back(wqe);
	return wr.wr.rdma.remote_addr;
}

static void a_clock_that_was_not_posted_leaves_its_word_to_the_next_one(void **state)
{
	struct posts p;

	begin(&p);
	clock_qp.cell[0] = 64;
	clock_qp.cell[1] = 72;
	clock_qp.ticket = 0;
	assert_int_equal(where_a_clock_goes(&p.q), 64);
	assert_int_equal(where_a_clock_goes(&p.q), 72);
	assert_int_equal(where_a_clock_goes(&p.q), 64);
	sr_clock_was_not_posted(&p.q);
	assert_int_equal(where_a_clock_goes(&p.q), 64);
	assert_int_equal(where_a_clock_goes(&p.q), 72);
	sr_wq_retire(p.q.sq, NULL);
}

static void an_unsignaled_reader_is_passed_by_a_later_completion(void **state)
{
	struct posts p;
	struct ibv_wc wc;

	begin(&p);
	post(&p, IBV_WR_RDMA_READ, 7, false);
	post(&p, IBV_WR_RDMA_WRITE, 8, true);
	wc = completion(p.program, IBV_WC_SUCCESS);
	assert_int_equal(seen(&wc, 1), 1);
	assert_int_equal(wc.wr_id, 8);
	assert_int_equal(clocks_read, 1);
	assert_int_equal(proven(), 1);
	assert_int_equal(sr_wq_passed(p.q.sq), 2);
	sr_wq_retire(p.q.sq, NULL);
}

static void a_failed_read_is_told_once(void **state)
{
	struct posts p;
	struct ibv_wc wc[2];

	begin(&p);
	post(&p, IBV_WR_RDMA_READ, 7, true);
	wc[0] = completion(p.program, IBV_WC_REM_ACCESS_ERR);
	wc[1] = completion(p.reader, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(seen(wc, 2), 1);
	assert_int_equal(wc[0].wr_id, 7);
	assert_int_equal(wc[0].status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(clocks_read, 0);
	assert_int_equal(proven(), 0);
	sr_wq_retire(p.q.sq, NULL);
}

static void a_read_whose_reader_is_flushed_has_succeeded(void **state)
{
	struct posts p;
	struct ibv_wc wc;

	begin(&p);
	post(&p, IBV_WR_RDMA_READ, 7, true);
	wc = completion(p.reader, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(seen(&wc, 1), 1);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.vendor_err, 0);
	assert_int_equal(proven(), 1);
	sr_wq_retire(p.q.sq, NULL);
}

static void a_clocks_failure_is_that_of_the_request_behind_it(void **state)
{
	struct posts first, second;
	struct ibv_wc wc[4];

	begin(&first);
	post(&first, IBV_WR_RDMA_WRITE, 7, false);
	second = first;
	post(&second, IBV_WR_RDMA_WRITE, 8, true);
	wc[0] = completion(first.clock, IBV_WC_RETRY_EXC_ERR);
	wc[1] = completion(first.program, IBV_WC_WR_FLUSH_ERR);
	wc[2] = completion(second.clock, IBV_WC_WR_FLUSH_ERR);
	wc[3] = completion(second.program, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(seen(wc, 4), 2);
	assert_int_equal(wc[0].wr_id, 7);
	assert_int_equal(wc[0].status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc[0].vendor_err, 3 * IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc[1].wr_id, 8);
	assert_int_equal(wc[1].status, IBV_WC_WR_FLUSH_ERR);
	sr_wq_retire(first.q.sq, NULL);
}

static void requests_are_used_again_without_their_roles(void **state)
{
	struct posts p;
	struct ibv_wc wc[2];

	begin(&p);
	for (int i = 0; i < 500; i++) {
		post(&p, i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, (uint64_t)i, true);
		wc[0] = completion(i % 2 ? p.reader : p.program, IBV_WC_SUCCESS);
		assert_int_equal(seen(wc, 1), 1);
		assert_int_equal(wc[0].wr_id, i);
		assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	}
	assert_int_equal(clocks_read, 250);
	assert_int_equal(sr_wq_passed(p.q.sq), 500);
	sr_wq_retire(p.q.sq, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_reader_completes_for_the_request_in_front_of_it),
	    cmocka_unit_test(a_clock_that_was_not_posted_leaves_its_word_to_the_next_one),
	    cmocka_unit_test(an_unsignaled_reader_is_passed_by_a_later_completion),
	    cmocka_unit_test(a_failed_read_is_told_once),
	    cmocka_unit_test(a_read_whose_reader_is_flushed_has_succeeded),
	    cmocka_unit_test(a_clocks_failure_is_that_of_the_request_behind_it),
	    cmocka_unit_test(requests_are_used_again_without_their_roles),
	};

	return cmocka_run_group_tests_name("clock_posts", tests, NULL, NULL);
}
