/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * codec.h: encodes values as bytes and decodes them; every call record consists of these values.
 *
 * An encoder appends to an sr_buf, a buffer of the thread in the shim's own memory. A decoder
 * reads through an sr_cursor and never past the end of the record: missing bytes read as zeros and
 * mark the cursor as bad.
 */
#ifndef SHIM_CORE_CODEC_H
#define SHIM_CORE_CODEC_H

#include <linux/aio_abi.h>
#include <netdb.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

#include "logd/base/processor.h"
#include "shim/core/completion.h"
#include "shim/core/uring_completion.h"

struct sr_buf {
	uint8_t *p;
	size_t len;
	size_t cap;
	/* *addrlen before the call: the size of the program's buffer. */
	uint32_t room;
};

struct sr_replay_output;

struct sr_cursor {
	const uint8_t *p;
	const uint8_t *end;
	bool bad;
	/* Replay: where an output that is not the recorded one is described; NULL: not compared. */
	struct sr_replay_output *output;
};

struct sr_bytes {
	const void *p;
	uint32_t n;
};

/* Makes room for n more bytes. Without memory it returns false, and the caller appends nothing. */
bool __attribute__((cold)) sr_buf_grow(struct sr_buf *b, size_t n);

/*
 * These functions are inline because they are on the data path: the size of each value is known at
 * compile time, and the copy becomes a single store. (The library is built with -fno-builtin.)
 */
#define SR_PUT static inline __attribute__((always_inline))

/* Appends n bytes for the caller to fill in; NULL when there is no memory. */
SR_PUT uint8_t *sr_buf_room(struct sr_buf *b, size_t n)
{
	uint8_t *p;

	if (__builtin_expect(b->cap - b->len < n, 0) && !sr_buf_grow(b, n))
		return NULL;
	p = b->p + b->len;
	b->len += n;
	return p;
}

SR_PUT void sr_put_raw(struct sr_buf *b, const void *p, size_t n)
{
	uint8_t *room = sr_buf_room(b, n);

	if (room)
		__builtin_memcpy(room, p, n);
}

SR_PUT void sr_put_u8(struct sr_buf *b, uint8_t v)
{
	sr_put_raw(b, &v, sizeof(v));
}

SR_PUT void sr_put_u16(struct sr_buf *b, uint16_t v)
{
	sr_put_raw(b, &v, sizeof(v));
}

SR_PUT void sr_put_u32(struct sr_buf *b, uint32_t v)
{
	sr_put_raw(b, &v, sizeof(v));
}

SR_PUT void sr_put_u64(struct sr_buf *b, uint64_t v)
{
	sr_put_raw(b, &v, sizeof(v));
}

static inline void sr_put_bytes(struct sr_buf *b, const void *p, size_t n)
{
	if (!p)
		n = 0;
	sr_put_u32(b, (uint32_t)n);
	sr_put_raw(b, p ? p : "", n);
}

static inline void sr_get_raw(struct sr_cursor *c, void *p, size_t n)
{
	if ((size_t)(c->end - c->p) < n) {
		c->bad = true;
		memset(p, 0, n);
		return;
	}
	__builtin_memcpy(p, c->p, n);
	c->p += n;
}

static inline uint8_t sr_get_u8(struct sr_cursor *c)
{
	uint8_t v;

	sr_get_raw(c, &v, sizeof(v));
	return v;
}

static inline uint16_t sr_get_u16(struct sr_cursor *c)
{
	uint16_t v;

	sr_get_raw(c, &v, sizeof(v));
	return v;
}

static inline uint32_t sr_get_u32(struct sr_cursor *c)
{
	uint32_t v;

	sr_get_raw(c, &v, sizeof(v));
	return v;
}

static inline uint64_t sr_get_u64(struct sr_cursor *c)
{
	uint64_t v;

	sr_get_raw(c, &v, sizeof(v));
	return v;
}

/* The result points into the record and is valid as long as the record is. */
static inline struct sr_bytes sr_get_bytes(struct sr_cursor *c)
{
	struct sr_bytes v = {.n = sr_get_u32(c)};

	if ((size_t)(c->end - c->p) < v.n) {
		c->bad = true;
		v.n = 0;
	}
	v.p = c->p;
	c->p += v.n;
	return v;
}

#endif
