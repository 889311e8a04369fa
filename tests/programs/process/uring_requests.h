/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_requests.h: what the programs of io_uring's tests have in common: rings, requests with names, completions printed. */
#ifndef URING_REQUESTS_H
#define URING_REQUESTS_H

#include <liburing.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "asynchronous.h"

#define BLOCK 4096

/* Something that another run does not have. */
static inline void fill(void *bytes, size_t n)
{
	unsigned char *p = bytes;
	struct timespec now;
	uint64_t x;

	clock_gettime(CLOCK_MONOTONIC, &now);
	x = (uint64_t)now.tv_nsec | 1;
	for (size_t i = 0; i < n; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		p[i] = (unsigned char)(x >> 56);
	}
}

static struct io_uring set_up(unsigned int entries, unsigned int flags)
{
	struct io_uring ring;
	int err = io_uring_queue_init(entries, &ring, flags);

	if (err) {
		fprintf(out, "no ring: %s\n", strerror(-err));
		fclose(out);
		exit(3);
	}
	return ring;
}

static struct io_uring_sqe *next(struct io_uring *ring, uint64_t name)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	sqe->user_data = name;
	return sqe;
}

/* io_uring_prep_* clears the name. */
#define REQUEST(ring, name, what, ...)                  \
	do {                                            \
		struct io_uring_sqe *sqe = next(ring, 0); \
		io_uring_prep_##what(sqe __VA_OPT__(,) __VA_ARGS__); \
		sqe->user_data = (name);                \
	} while (0)

struct ended {
	uint64_t name;
	int result;
};

static struct ended take(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;
	struct ended e = {0};
	int err = io_uring_wait_cqe(ring, &cqe);

	if (err) {
		fprintf(out, "wait: %d\n", err);
		return e;
	}
	e = (struct ended){cqe->user_data, cqe->res};
	fprintf(out, "%ld: %d flags %#x\n", (long)e.name, e.result, cqe->flags);
	io_uring_cqe_seen(ring, cqe);
	return e;
}

/* The next request waits for it. */
static inline void link_last(struct io_uring *ring)
{
	ring->sq.sqes[(ring->sq.sqe_tail - 1) & *ring->sq.kring_mask].flags |= IOSQE_IO_LINK;
}

#endif
