/* SPDX-License-Identifier: BSD-2-Clause */
/* The ring: records come out as they went in, whatever happens in between. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "pattern.h"
#include "logd/base/rawsys.h"
#include "logd/ring/ring.h"

#define SMALL (64u << 10)

struct pair {
	struct sr_ring out, in;
	int fd;
	size_t bytes;
};

static int attach_consumer(const struct pair *p, struct sr_ring *r)
{
	return sr_ring_map(r, p->fd, 0, p->bytes, SR_RING_CONSUMER, NULL);
}

static void open_pair(struct pair *p, size_t bytes)
{
	p->bytes = bytes;
	p->fd = sr_ring_file_create(1, bytes);
	assert_true(p->fd >= 0);
	assert_int_equal(sr_ring_map(&p->out, p->fd, 0, bytes, SR_RING_PRODUCER, NULL), 0);
	sr_ring_renew(&p->out);
	assert_int_equal(attach_consumer(p, &p->in), 0);
}

static void close_pair(struct pair *p)
{
	sr_ring_detach(&p->out);
	sr_ring_detach(&p->in);
	close(p->fd);
}

static void put_number(struct sr_ring *r, uint64_t number)
{
	uint64_t *payload = sr_ring_reserve(r, SR_REC_CALL, sizeof(number));

	assert_non_null(payload);
	*payload = number;
	sr_ring_commit(r, sizeof(number));
}

/* The first record in the ring. */
static const struct sr_record *front(struct sr_ring *r)
{
	const void *records;

	assert_true(sr_ring_peek(r, &records) > 0);
	return records;
}

static void pop(struct sr_ring *r)
{
	sr_ring_release(r, sr_record_padded(front(r)->size));
}

static bool is_empty(struct sr_ring *r)
{
	const void *records;

	return sr_ring_peek(r, &records) == 0;
}

static void test_commit_makes_visible_and_not_before(void **state)
{
	struct pair p;
	char *payload;

	open_pair(&p, SMALL);
	payload = sr_ring_reserve(&p.out, SR_REC_CALL + 7, 100);
	assert_true(is_empty(&p.in));
	memcpy(payload, "abc", 3);
	sr_ring_commit(&p.out, 3);
	assert_int_equal(front(&p.in)->size, sizeof(struct sr_record) + 3);
	assert_int_equal(front(&p.in)->kind, SR_REC_CALL + 7);
	assert_int_equal(front(&p.in)->flags, 0);
	assert_memory_equal(front(&p.in) + 1, "abc\0\0\0\0", 8); /* the padding is zero */
	pop(&p.in);
	assert_true(is_empty(&p.in));
	assert_int_equal(sr_ring_position(&p.in), 16);
	close_pair(&p);
}

static void test_cancel_leaves_nothing(void **state)
{
	struct pair p;

	open_pair(&p, SMALL);
	assert_non_null(sr_ring_reserve(&p.out, SR_REC_CALL, 50));
	sr_ring_cancel(&p.out);
	assert_true(is_empty(&p.in));
	put_number(&p.out, 1);
	assert_int_equal(*(const uint64_t *)(front(&p.in) + 1), 1);
	close_pair(&p);
}

static void test_records_are_contiguous_across_the_end(void **state)
{
	struct pair p;

	open_pair(&p, SMALL);
	for (uint64_t n = 0; n < 5000; n++) {
		uint32_t size = (uint32_t)(mix(n) % 3000) + 8;
		unsigned char *payload = sr_ring_reserve(&p.out, SR_REC_CALL, size);

		assert_non_null(payload);
		memset(payload, (int)n, size);
		sr_ring_commit(&p.out, size);
		assert_int_equal(front(&p.in)->size, sizeof(struct sr_record) + size);
		for (uint32_t i = 0; i < size; i++)
			assert_int_equal(((const unsigned char *)(front(&p.in) + 1))[i],
					 (unsigned char)n);
		pop(&p.in);
	}
	close_pair(&p);
}

static void test_too_large_is_refused(void **state)
{
	struct pair p;

	open_pair(&p, SMALL);
	assert_null(sr_ring_reserve(&p.out, SR_REC_CALL, sr_ring_max_payload(&p.out) + 1));
	assert_null(sr_ring_reserve(&p.out, SR_REC_CALL, UINT32_MAX));
	assert_false(sr_ring_busy(&p.out));
	assert_non_null(sr_ring_reserve(&p.out, SR_REC_CALL, sr_ring_max_payload(&p.out)));
	sr_ring_cancel(&p.out);
	close_pair(&p);
}

/* ---- signals ---- */

static struct sr_ring *signal_ring;
static volatile int nested_null, nested_good;

static void record_in_handler(int signal)
{
	uint64_t *payload = sr_ring_reserve(signal_ring, SR_REC_CALL + 1, 8);

	if (!payload) {
		nested_null++;
		return;
	}
	nested_good++;
	*payload = UINT64_MAX;
	sr_ring_commit(signal_ring, 8);
}

static void test_reserve_inside_of_a_reservation_is_detected(void **state)
{
	struct sigaction action = {.sa_handler = record_in_handler};
	struct pair p;
	uint64_t *payload;

	open_pair(&p, SMALL);
	signal_ring = &p.out;
	nested_null = nested_good = 0;
	sigaction(SIGUSR1, &action, NULL);
	payload = sr_ring_reserve(&p.out, SR_REC_CALL, 8);
	raise(SIGUSR1);
	*payload = 5;
	sr_ring_commit(&p.out, 8);
	assert_int_equal(nested_null, 1);
	assert_int_equal(*(const uint64_t *)(front(&p.in) + 1), 5);
	pop(&p.in);
	/* The loss is marked in front of the next record, with the SN it took. */
	put_number(&p.out, 6);
	assert_int_equal(front(&p.in)->kind, SR_REC_MARK);
	assert_int_equal(((const struct sr_mark_payload *)(front(&p.in) + 1))->reason,
			 SR_MARK_DROPPED);
	assert_int_equal(((const struct sr_mark_payload *)(front(&p.in) + 1))->skipped_sns, 1);
	pop(&p.in);
	assert_int_equal(*(const uint64_t *)(front(&p.in) + 1), 6);
	close_pair(&p);
}

struct drained {
	uint64_t expected, nested, marked;
};

static void drain(struct sr_ring *in, struct drained *d)
{
	while (!is_empty(in)) {
		const struct sr_record *r = front(in);

		if (r->kind == SR_REC_CALL)
			assert_int_equal(*(const uint64_t *)(r + 1), d->expected++);
		else if (r->kind == SR_REC_CALL + 1)
			d->nested++;
		else
			d->marked += ((const struct sr_mark_payload *)(r + 1))->argument;
		pop(in);
	}
}

static void test_signals_at_any_instruction_corrupt_nothing(void **state)
{
	struct sigaction action = {.sa_handler = record_in_handler, .sa_flags = SA_RESTART};
	struct itimerspec often = {{0, 20000}, {0, 20000}};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct drained d = {0};
	struct pair p;
	timer_t timer;

	open_pair(&p, SMALL);
	signal_ring = &p.out;
	nested_null = nested_good = 0;
	sigaction(SIGUSR1, &action, NULL);
	assert_int_equal(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	timer_settime(timer, 0, &often, NULL);
	for (uint64_t n = 0; n < 300000; n++) {
		put_number(&p.out, n);
		drain(&p.in, &d);
	}
	timer_delete(timer);
	drain(&p.in, &d); /* several may have come since */
	assert_true(d.expected == 300000);
	assert_int_equal(d.nested, nested_good);
	assert_true(d.marked <= (uint64_t)nested_null);
	signal(SIGUSR1, SIG_DFL);
	close_pair(&p);
}

/* ---- full rings ---- */

static void fill(struct sr_ring *r, uint64_t from)
{
	for (uint64_t n = 0; n < SMALL / 16; n++)
		put_number(r, from + n);
}

static void test_lossy_drops_whole_records_and_marks_the_hole(void **state)
{
	const struct sr_mark_payload *mark;
	struct iovec large = {malloc(40000), 40000};
	struct pair p;

	open_pair(&p, SMALL);
	sr_ring_set_lossy(&p.out, true);
	fill(&p.out, 0);
	assert_null(sr_ring_reserve(&p.out, SR_REC_CALL, 8));
	assert_null(sr_ring_reserve(&p.out, 30, 8)); /* counts no SN */
	memset(large.iov_base, 1, large.iov_len);
	assert_int_equal(sr_ring_writev(&p.out, SR_REC_CALL, &large, 1), -EPIPE);
	for (int i = 0; i < 10; i++)
		pop(&p.in);
	assert_int_equal(sr_ring_writev(&p.out, SR_REC_CALL, &large, 1), -EPIPE);
	put_number(&p.out, 77);
	for (uint64_t n = 10; n < SMALL / 16; n++)
		pop(&p.in);
	mark = (const void *)(front(&p.in) + 1);
	assert_int_equal(mark->reason, SR_MARK_DROPPED);
	assert_int_equal(mark->argument, 4);
	assert_int_equal(mark->skipped_sns, 3);
	pop(&p.in);
	assert_int_equal(*(const uint64_t *)(front(&p.in) + 1), 77);
	free(large.iov_base);
	close_pair(&p);
}

/* No reader takes more.  What comes later is in the stream, with the hole in front. */
static void test_drops_a_record_over_the_largest(void **state)
{
	char bytes[8] = "";
	struct iovec huge[] = {{bytes, sizeof(bytes)}, {bytes, SR_RECORD_MAX}}; /* the second one is not looked at */
	const struct sr_mark_payload *mark;
	struct pair p;

	open_pair(&p, SMALL);
	assert_int_equal(sr_ring_writev(&p.out, SR_REC_CALL, huge, 2), -EMSGSIZE);
	put_number(&p.out, 77);
	mark = (const void *)(front(&p.in) + 1);
	assert_int_equal(mark->reason, SR_MARK_DROPPED);
	assert_int_equal(mark->skipped_sns, 1);
	pop(&p.in);
	assert_int_equal(*(const uint64_t *)(front(&p.in) + 1), 77);
	close_pair(&p);
}

static void fail_of_waiting(void *ring)
{
	fail_msg("a lossy ring waits");
}

/* The consumer never comes: whatever the producer writes, it does not wait for ever. */
static void test_lossy_never_waits_for_a_large_record(void **state)
{
	struct iovec large = {calloc(1, 2 * SMALL), 0};
	const size_t sizes[] = {SMALL / 2 + 100, SMALL - 100, SMALL, 2 * SMALL};
	struct pair p;

	open_pair(&p, SMALL);
	sr_ring_set_lossy(&p.out, true);
	sr_ring_set_wait_hook(&p.out, fail_of_waiting, NULL);
	put_number(&p.out, 1);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int ret;

		large.iov_len = sizes[i];
		ret = sr_ring_writev(&p.out, SR_REC_CALL, &large, 1);
		/* Only the first one fits in the remaining room. */
		assert_int_equal(ret, i == 0 ? 0 : -EPIPE);
	}
	free(large.iov_base);
	close_pair(&p);
}

static void *drain_later(void *argument)
{
	struct sr_ring *in = argument;

	usleep(100000);
	while (!is_empty(in))
		pop(in);
	return NULL;
}

static int hook_calls;

static void count_hook(void *argument)
{
	hook_calls++;
}

static void test_producer_waits_for_room_and_calls_its_hook(void **state)
{
	pthread_t thread;
	struct pair p;

	open_pair(&p, SMALL);
	sr_ring_set_wait_hook(&p.out, count_hook, NULL);
	hook_calls = 0;
	fill(&p.out, 0);
	pthread_create(&thread, NULL, drain_later, &p.in);
	put_number(&p.out, 1);
	pthread_join(thread, NULL);
	assert_in_range(hook_calls, 2, 20);
	close_pair(&p);
}

static void *stop_later(void *argument)
{
	usleep(50000);
	sr_ring_stop(((struct sr_ring *)argument)->shared, ENOSPC);
	return NULL;
}

static void test_stopped_ring_drops_without_waiting(void **state)
{
	struct iovec large = {calloc(1, 100000), 100000};
	pthread_t thread;
	struct pair p;

	open_pair(&p, SMALL);
	fill(&p.out, 0);
	pthread_create(&thread, NULL, stop_later, &p.in);
	assert_null(sr_ring_reserve(&p.out, SR_REC_CALL, 8)); /* was waiting */
	pthread_join(thread, NULL);
	assert_true(sr_ring_stopped(&p.out));
	for (int i = 0; i < 1000; i++)
		assert_null(sr_ring_reserve(&p.out, SR_REC_CALL, 8));
	assert_int_equal(sr_ring_writev(&p.out, SR_REC_CALL, &large, 1), -EPIPE);
	free(large.iov_base);
	close_pair(&p);
}

/* ---- two threads ---- */

struct transfer {
	struct pair pair;
	uint64_t seed, records;
};

static void *produce(void *argument)
{
	struct transfer *t = argument;

	for (uint64_t n = 0; n < t->records; n++) {
		if (!pattern_write(&t->pair.out, t->seed, n))
			abort();
		if (mix(n ^ t->seed) % 5000 == 0)
			usleep(500); /* so that the consumer sleeps at times */
	}
	sr_ring_close(&t->pair.out);
	return NULL;
}

/* One record of the pattern, put together from its pieces. */
static void consume_one(struct sr_ring *in, uint64_t seed, uint64_t n)
{
	struct pattern_record expected = pattern_at(seed, n);
	unsigned char *want = malloc(expected.size + 1);
	size_t got = 0;
	bool more = true;

	pattern_fill(seed, n, &expected, want);
	while (more) {
		const struct sr_record *r;
		size_t size;

		assert_int_equal(sr_ring_wait(in, 10000), 1);
		r = front(in);
		size = r->size - sizeof(*r);
		assert_int_equal(r->kind, expected.kind);
		assert_true(got + size <= expected.size);
		assert_memory_equal(r + 1, want + got, size);
		got += size;
		more = r->flags & SR_RECORD_MORE;
		pop(in);
	}
	assert_int_equal(got, expected.size);
	free(want);
}

static void transfer(uint64_t seed, size_t bytes, uint64_t records)
{
	struct transfer t = {.seed = seed, .records = records};
	pthread_t thread;

	open_pair(&t.pair, bytes);
	pthread_create(&thread, NULL, produce, &t);
	for (uint64_t n = 0; n < records; n++)
		consume_one(&t.pair.in, seed, n);
	assert_int_equal(sr_ring_wait(&t.pair.in, 5000), -EPIPE);
	pthread_join(thread, NULL);
	close_pair(&t.pair);
}

static void test_any_sequence_comes_out_as_it_went_in(void **state)
{
	for (uint64_t seed = 0; seed < 12; seed++)
		transfer(seed, SMALL << (seed % 4), 3000);
}

static void test_wait_ends_with_its_time(void **state)
{
	struct pair p;
	int64_t begin = sr_sys_now_ms();

	open_pair(&p, SMALL);
	assert_int_equal(sr_ring_wait(&p.in, 0), 0);
	assert_int_equal(sr_ring_wait(&p.in, 60), 0);
	assert_in_range(sr_sys_now_ms() - begin, 55, 2000);
	put_number(&p.out, 1);
	assert_int_equal(sr_ring_wait(&p.in, 0), 1);
	close_pair(&p);
}

/* ---- taking over, and refusing ---- */

static void test_new_consumer_goes_on_where_the_old_one_released(void **state)
{
	struct sr_ring next;
	struct pair p;

	open_pair(&p, SMALL);
	for (uint64_t n = 0; n < 10; n++)
		put_number(&p.out, n);
	pop(&p.in);
	pop(&p.in);
	sr_ring_detach(&p.in); /* as if killed */
	assert_int_equal(attach_consumer(&p, &next), 0);
	assert_int_equal(*(const uint64_t *)(front(&next) + 1), 2);
	assert_int_equal(sr_ring_resume_at(&next, 16), -EINVAL); /* released already */
	assert_int_equal(sr_ring_resume_at(&next, 16 * 11), -EINVAL);
	assert_int_equal(sr_ring_resume_at(&next, 16 * 5), 0);
	assert_int_equal(*(const uint64_t *)(front(&next) + 1), 5);
	sr_ring_detach(&next);
	sr_ring_detach(&p.out);
	close(p.fd);
}

static void test_killed_producer_leaves_what_it_committed(void **state)
{
	struct pair p;
	pid_t pid;

	open_pair(&p, SMALL);
	pid = fork();
	if (pid == 0) {
		put_number(&p.out, 11);
		memset(sr_ring_reserve(&p.out, SR_REC_CALL, 1000), 0xff, 1000);
		kill(getpid(), SIGKILL);
	}
	waitpid(pid, NULL, 0);
	assert_int_equal(*(const uint64_t *)(front(&p.in) + 1), 11);
	pop(&p.in);
	assert_true(is_empty(&p.in));
	close_pair(&p);
}

static void test_what_is_no_ring_is_refused(void **state)
{
	struct pair p = {.bytes = SMALL, .fd = sr_ring_file_create(1, SMALL)};
	struct sr_ring other;

	assert_int_equal(attach_consumer(&p, &other), -EINVAL); /* no magic */
	close(p.fd);
	p.fd = -1;
	assert_true(attach_consumer(&p, &other) < 0);
	open_pair(&p, SMALL);
	p.out.shared->version = 99;
	assert_int_equal(attach_consumer(&p, &other), -EPROTO);
	close_pair(&p);
	assert_int_equal(sr_ring_file_create(1, 2ull * SR_RING_MAX_BYTES), -EINVAL);
	assert_int_equal(sr_ring_file_create(1, SMALL + 8), -EINVAL);
}

/* The rings of a file do not touch each other, and nobody can make it shorter. */
static void test_rings_of_a_file(void **state)
{
	int fd = sr_ring_file_create(3, SMALL);
	struct sr_ring ring[3];

	assert_true(ftruncate(fd, 4096) < 0);
	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(sr_ring_map(&ring[i], fd, i * sr_ring_file_bytes(SMALL), SMALL, SR_RING_PRODUCER, NULL), 0);
		sr_ring_renew(&ring[i]);
	}
	for (uint64_t n = 0; n < 3 * 100; n++)
		put_number(&ring[n % 3], n);
	for (uint64_t i = 0; i < 3; i++) {
		struct sr_ring in;

		assert_int_equal(sr_ring_map(&in, fd, i * sr_ring_file_bytes(SMALL), SMALL, SR_RING_CONSUMER, NULL), 0);
		for (uint64_t n = i; n < 3 * 100; n += 3) {
			assert_int_equal(*(const uint64_t *)(front(&in) + 1), n);
			pop(&in);
		}
		assert_true(is_empty(&in));
		sr_ring_detach(&in);
		sr_ring_detach(&ring[i]);
	}
	close(fd);
}

static void test_wild_head_leads_nowhere(void **state)
{
	const void *records;
	struct pair p;

	open_pair(&p, SMALL);
	atomic_store(&p.out.shared->head, UINT64_MAX - 7);
	assert_int_equal(sr_ring_peek(&p.in, &records), 0);
	close_pair(&p);
}

static void test_descriptors_stay_out_of_the_way(void **state)
{
	int before = dup(0), after, fd = sr_ring_file_create(1, SMALL);

	assert_true(fd >= 600);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	after = dup(0);
	assert_int_equal(after, before + 1);
	close(before);
	close(after);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_commit_makes_visible_and_not_before),
	    cmocka_unit_test(test_cancel_leaves_nothing),
	    cmocka_unit_test(test_records_are_contiguous_across_the_end),
	    cmocka_unit_test(test_too_large_is_refused),
	    cmocka_unit_test(test_reserve_inside_of_a_reservation_is_detected),
	    cmocka_unit_test(test_signals_at_any_instruction_corrupt_nothing),
	    cmocka_unit_test(test_lossy_drops_whole_records_and_marks_the_hole),
	    cmocka_unit_test(test_lossy_never_waits_for_a_large_record),
	    cmocka_unit_test(test_drops_a_record_over_the_largest),
	    cmocka_unit_test(test_producer_waits_for_room_and_calls_its_hook),
	    cmocka_unit_test(test_stopped_ring_drops_without_waiting),
	    cmocka_unit_test(test_any_sequence_comes_out_as_it_went_in),
	    cmocka_unit_test(test_wait_ends_with_its_time),
	    cmocka_unit_test(test_new_consumer_goes_on_where_the_old_one_released),
	    cmocka_unit_test(test_killed_producer_leaves_what_it_committed),
	    cmocka_unit_test(test_what_is_no_ring_is_refused),
	    cmocka_unit_test(test_rings_of_a_file),
	    cmocka_unit_test(test_wild_head_leads_nowhere),
	    cmocka_unit_test(test_descriptors_stay_out_of_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
