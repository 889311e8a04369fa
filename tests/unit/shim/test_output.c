/* SPDX-License-Identifier: BSD-2-Clause */
/* test_output.c: the short form of an output, by any pieces; and each byte that differs is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "replay/abi/control.h"
#include "shim/calls/codec/output.h"
#include "shim/files/fds.h"
#include "shim/files/uncompared.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"
#include "shim/verbs/regions.h"

/* What the module needs of the shim. */
static _Atomic uint32_t uncompared;
_Atomic uint32_t *sr_uncompared = &uncompared;

bool sr_fd_captured(int fd)
{
	return false;
}

bool sr_is_readable(const void *p, size_t n)
{
	return p || !n;
}

const void *sr_regions_sent(const void *p, size_t length)
{
	return p;
}

void *sr_alloc(size_t size)
{
	return malloc(size);
}

void sr_free(void *p)
{
	free(p);
}

bool sr_buf_grow(struct sr_buf *b, size_t n)
{
	b->cap = 2 * (b->len + n);
	b->p = realloc(b->p, b->cap);
	return b->p;
}

#define LONGEST 1500

static const size_t lengths[] = {0, 1, 63, 64, 65, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1024, LONGEST};

static size_t below(size_t n)
{
	return (size_t)random() % n;
}

static void fill(uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)random();
}

/* Cuts copies of the bytes into pieces of memory of exactly their size, so that sanitizers see more. */
static int cut(const uint8_t *bytes, size_t n, struct iovec *iov)
{
	int count = 0;

	for (size_t at = 0, size; at < n || !count; at += size, count++) {
		size = n - at < 10 || below(10) == 0 ? n - at : below(n - at + 1);
		iov[count] = (struct iovec){malloc(size ? size : 1), size};
		memcpy(iov[count].iov_base, bytes + at, size);
	}
	return count;
}

static void free_pieces(struct iovec *iov, int count)
{
	for (int i = 0; i < count; i++)
		free(iov[i].iov_base);
}

static struct sr_cursor at_begin(const struct sr_buf *b, struct sr_replay_output *d)
{
	d->differs = false;
	return (struct sr_cursor){.p = b->p, .end = b->p + b->len, .output = d};
}

static void pieces_do_not_matter(void **state)
{
	uint8_t bytes[LONGEST];
	struct iovec iov[LONGEST];

	for (int round = 0; round < 200; round++) {
		size_t n = lengths[(size_t)round % (sizeof(lengths) / sizeof(lengths[0]))];
		struct sr_buf one = {0}, many = {0};
		struct sr_replay_output d;
		struct sr_cursor c;
		int count;

		fill(bytes, n);
		count = cut(bytes, n, iov);
		sr_put_output(&one, bytes, n, (ssize_t)n);
		sr_put_gathered_output(&many, iov, (size_t)count, (ssize_t)n);
		assert_int_equal(many.len, one.len + sizeof(uint64_t));
		assert_memory_equal(many.p + sizeof(uint64_t), one.p, one.len);
		c = at_begin(&many, &d);
		sr_deliver_gathered_output(&c, iov, (size_t)count, (ssize_t)n);
		assert_false(c.bad || d.differs || c.p != c.end);
		free_pieces(iov, count);
		free(one.p);
		free(many.p);
	}
}

static void each_byte_counts(void **state)
{
	uint8_t bytes[LONGEST];

	for (size_t i = 1; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t n = lengths[i];
		struct sr_replay_output d;
		struct sr_buf b = {0};
		struct sr_cursor c;

		fill(bytes, n);
		sr_put_output(&b, bytes, n, (ssize_t)n);
		for (size_t at = 0; at < n; at++) {
			bytes[at] ^= (uint8_t)(1 << below(8));
			c = at_begin(&b, &d);
			sr_deliver_output(&c, bytes, n, (ssize_t)n);
			assert_true(d.differs && !c.bad && c.p == c.end);
			assert_true(d.at <= at && at < d.at + SR_OUTPUT_BLOCK);
			assert_int_equal(d.shown, n - d.at < SR_OUTPUT_BLOCK ? n - d.at : SR_OUTPUT_BLOCK);
			assert_memory_equal(d.bytes, bytes + d.at, d.shown);
			fill(bytes + at, 1);
			memcpy(bytes + at, at < SR_OUTPUT_KEPT ? b.p + 4 + at : bytes + at, 1);
			if (at >= SR_OUTPUT_KEPT) {
				/* What it was is not kept: the form is made again. */
				b.len = 0;
				sr_put_output(&b, bytes, n, (ssize_t)n);
			}
		}
		free(b.p);
	}
}

static void lengths_count(void **state)
{
	uint8_t bytes[LONGEST];
	struct sr_replay_output d;
	struct sr_cursor c;

	fill(bytes, sizeof(bytes));
	for (size_t i = 1; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct sr_buf b = {0};
		size_t n = lengths[i];
		uint8_t *shorter = malloc(n - 1 ? n - 1 : 1);

		memcpy(shorter, bytes, n - 1);
		sr_put_output(&b, bytes, n, (ssize_t)n);
		c = at_begin(&b, &d);
		sr_deliver_output(&c, shorter, n - 1, (ssize_t)n);
		assert_true(d.differs && d.length == n - 1 && d.recorded_length == n);
		/* A part of what the program has: only that was written. */
		c = at_begin(&b, &d);
		sr_deliver_output(&c, bytes, sizeof(bytes), (ssize_t)n);
		assert_false(d.differs || c.bad);
		/* Of a damaged record. */
		c = at_begin(&b, &d);
		sr_deliver_output(&c, bytes, sizeof(bytes), (ssize_t)n + SR_OUTPUT_BLOCK);
		assert_true(c.bad || d.differs);
		for (size_t cut_at = 0; cut_at < b.len; cut_at++) {
			c = at_begin(&b, &d);
			c.end = b.p + cut_at;
			sr_deliver_output(&c, bytes, n, (ssize_t)n);
			assert_true(c.bad);
		}
		free(b.p);
		free(shorter);
	}
}

static void failures_write_nothing(void **state)
{
	struct sr_buf b = {0};
	struct sr_replay_output d;
	struct sr_cursor c;

	sr_put_output(&b, NULL, 100, -1);
	c = at_begin(&b, &d);
	sr_deliver_output(&c, "other", 5, -1);
	assert_false(c.bad || d.differs || c.p != c.end);
	b.len = 0;
	sr_put_gathered_output(&b, NULL, 7, -1);
	c = at_begin(&b, &d);
	sr_deliver_gathered_output(&c, NULL, 7, -1);
	assert_false(c.bad || d.differs || c.p != c.end);
	free(b.p);
}

/* From a file, longer than what is read at once. */
static void moved_bytes_are_read_again(void **state)
{
	enum { SIZE = 200000, OFFSET = 77 };
	static uint8_t bytes[SIZE];
	static const size_t sizes[] = {1, 64, 65, 65536, 65537, 131072, 150000};
	int fd = memfd_create("output", MFD_CLOEXEC);
	struct sr_replay_output d;
	struct sr_cursor c;

	fill(bytes, sizeof(bytes));
	assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct sr_buf moved = {0}, plain = {0};
		size_t n = sizes[i];
		off_t before = OFFSET, after = OFFSET + (off_t)n;
		uint8_t byte = (uint8_t)~bytes[OFFSET + n - 1];

		sr_put_moved_output(&moved, fd, &after, (ssize_t)n);
		sr_put_output(&plain, bytes + OFFSET, n, (ssize_t)n);
		assert_int_equal(moved.len, plain.len);
		assert_memory_equal(moved.p, plain.p, plain.len);
		c = at_begin(&moved, &d);
		sr_deliver_moved_output(&c, fd, &before, (ssize_t)n);
		assert_false(c.bad || d.differs || c.p != c.end);
		assert_int_equal(pwrite(fd, &byte, 1, OFFSET + (off_t)n - 1), 1);
		c = at_begin(&moved, &d);
		sr_deliver_moved_output(&c, fd, &before, (ssize_t)n);
		assert_true(d.differs && d.at == (n - 1) / SR_OUTPUT_BLOCK * SR_OUTPUT_BLOCK);
		assert_int_equal(pwrite(fd, bytes + OFFSET + n - 1, 1, OFFSET + (off_t)n - 1), 1);
		/* By the descriptor's position; and in a file that is shorter now. */
		lseek(fd, before, SEEK_SET);
		c = at_begin(&moved, &d);
		sr_deliver_moved_output(&c, fd, NULL, (ssize_t)n);
		assert_false(c.bad || d.differs);
		lseek(fd, SIZE - (off_t)n + 1, SEEK_SET);
		c = at_begin(&moved, &d);
		sr_deliver_moved_output(&c, fd, NULL, (ssize_t)n);
		assert_true(d.differs);
		free(moved.p);
		free(plain.p);
	}
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(pieces_do_not_matter), cmocka_unit_test(each_byte_counts),
	    cmocka_unit_test(lengths_count), cmocka_unit_test(failures_write_nothing),
	    cmocka_unit_test(moved_bytes_are_read_again),
	};

	srandom(7);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
