/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_outsiders.c: where ranks that are not replayed may have written, according to their traces.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "replay/host/producers/outsiders.h"
#include "trace_calls.h"

#define RANKS 3

struct job {
	char dir[64];
	struct trace_maker *m;
};

static uint64_t qp_of(int rank, int peer)
{
	return 0x100000ull + (uint64_t)(rank * 16 + peer) * 0x1000;
}

static uint32_t number_of(int rank, int peer)
{
	return (uint32_t)(100 + rank * 16 + peer);
}

static void connect_to(struct job *j, int rank, int peer)
{
	trace_qp(j->m, rank, 0, qp_of(rank, peer), number_of(rank, peer), number_of(peer, rank),
		 number_of(rank, peer), number_of(peer, rank));
}

/* All are connected to all. */
static void begin(struct job *j)
{
	snprintf(j->dir, sizeof(j->dir), "/tmp/test_outsiders.XXXXXX");
	assert_non_null(mkdtemp(j->dir));
	j->m = trace_maker_new(j->dir);
	for (int rank = 0; rank < RANKS; rank++) {
		trace_maker_rank(j->m, rank, "{}");
		for (int peer = 0; peer < RANKS; peer++)
			if (peer != rank)
				connect_to(j, rank, peer);
	}
}

static void post(struct job *j, int rank, int peer, enum ibv_wr_opcode opcode, uint64_t remote,
		 uint32_t length)
{
	const struct trace_request r = {
	    .opcode = opcode, .address = 0x5000, .remote = remote, .length = length};

	trace_post_send(j->m, rank, 0, qp_of(rank, peer), &r, 1, 0);
}

static void end_rank(struct job *j, int rank)
{
	const struct sr_exit_payload exit = {.status = 0};

	trace_maker_record(j->m, rank, 0, SR_REC_EXIT, &exit, sizeof(exit));
}

static void end_all(struct job *j)
{
	for (int rank = 0; rank < RANKS; rank++)
		end_rank(j, rank);
}

/* Finds the outsiders of a group of ranks 0 and 1. */
static struct sr_outsiders *find(struct job *j)
{
	const int32_t group[] = {0, 1};
	struct sr_outsiders *o;
	struct sr_trace *t;
	struct sr_error err;
	char command[96];

	trace_maker_finish(j->m);
	assert_int_equal(0, sr_trace_open(&t, j->dir, &err));
	assert_int_equal(0, sr_outsiders_find(&o, t, group, 2, &err));
	sr_trace_close(t);
	snprintf(command, sizeof(command), "rm -r %s", j->dir);
	assert_int_equal(0, system(command));
	return o;
}

static void test_only_what_outsiders_wrote_counts(void **state)
{
	const struct sr_outsiders_range *r;
	struct sr_outsiders *o;
	struct job j;
	size_t n;

	begin(&j);
	post(&j, 2, 0, IBV_WR_RDMA_WRITE, 0x9000, 16);
	post(&j, 2, 0, IBV_WR_RDMA_READ, 0xa000, 64);
	post(&j, 1, 0, IBV_WR_RDMA_WRITE, 0xb000, 64);
	post(&j, 0, 2, IBV_WR_RDMA_WRITE, 0xc000, 64);
	post(&j, 2, 0, IBV_WR_ATOMIC_FETCH_AND_ADD, 0x8000, 8);
	post(&j, 2, 0, IBV_WR_RDMA_WRITE, 0x9010, 8);
	post(&j, 2, 0, IBV_WR_RDMA_WRITE, 0x9004, 2);
	end_all(&j);
	o = find(&j);
	r = sr_outsiders_ranges(o, 0, &n);
	assert_non_null(r);
	assert_int_equal(2, n);
	assert_int_equal(0x8000, r[0].begin);
	assert_int_equal(0x8008, r[0].end);
	assert_int_equal(0x9000, r[1].begin);
	assert_int_equal(0x9018, r[1].end);
	assert_non_null(sr_outsiders_ranges(o, 1, &n));
	assert_int_equal(0, n);
	sr_outsiders_free(o);
}

static void test_many_writes_to_few_places_take_few_ranges(void **state)
{
	const struct sr_outsiders_range *r;
	struct sr_outsiders *o;
	struct job j;
	size_t n;

	begin(&j);
	for (uint64_t i = 0; i < 3000; i++)
		post(&j, 2, 1, IBV_WR_RDMA_WRITE, 0x9000 + i % 100 * 32, 8);
	end_all(&j);
	o = find(&j);
	r = sr_outsiders_ranges(o, 1, &n);
	assert_non_null(r);
	assert_int_equal(100, n);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(0x9000 + i * 32, r[i].begin);
	sr_outsiders_free(o);
}

/* Rank 0's memory may have been written at any address, and rank 1's too if of_rank_1. */
static void anywhere(struct job *j, bool of_rank_1)
{
	struct sr_outsiders *o = find(j);
	size_t n;

	assert_null(sr_outsiders_ranges(o, 0, &n));
	assert_int_equal(of_rank_1, !sr_outsiders_ranges(o, 1, &n));
	sr_outsiders_free(o);
}

static void test_a_rank_without_an_end_may_have_written_anywhere(void **state)
{
	struct job j;

	begin(&j);
	end_rank(&j, 0);
	end_rank(&j, 1);
	anywhere(&j, true);
}

static void test_a_killed_rank_may_have_written_anywhere(void **state)
{
	const struct sr_mark_payload died = {.reason = SR_MARK_DIED};
	struct job j;

	begin(&j);
	end_rank(&j, 0);
	end_rank(&j, 1);
	trace_maker_record(j.m, 2, 0, SR_REC_MARK, &died, sizeof(died));
	anywhere(&j, true);
}

static void test_a_peer_that_was_not_recorded_may_have_written_anywhere(void **state)
{
	struct job j;

	begin(&j);
	connect_to(&j, 0, 7);
	end_all(&j);
	anywhere(&j, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_only_what_outsiders_wrote_counts),
	    cmocka_unit_test(test_many_writes_to_few_places_take_few_ranges),
	    cmocka_unit_test(test_a_rank_without_an_end_may_have_written_anywhere),
	    cmocka_unit_test(test_a_killed_rank_may_have_written_anywhere),
	    cmocka_unit_test(test_a_peer_that_was_not_recorded_may_have_written_anywhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
