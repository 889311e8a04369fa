/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/codec/output.h"

#include <string.h>

#include "logd/base/checksum.h"
#include "replay/abi/control.h"
#include "shim/kernel/readable.h"
#include "shim/verbs/regions.h"

/* Of so many bytes XXH3 takes 80 instructions, without vectors; of 256 it takes 350. */
#define PART 128

static inline uint32_t checksum_of(const uint8_t *p, size_t n)
{
	uint64_t sum = sr_checksum(p, n < PART ? n : PART, 0);

	if (n > PART)
		sum = sr_checksum(p + PART, n - PART, sum);
	return (uint32_t)sum;
}

/* Most blocks are whole; with their size known, the compiler leaves the branches out. */
static uint32_t checksum_of_block(const uint8_t *p, size_t n)
{
	return n == SR_OUTPUT_BLOCK ? checksum_of(p, SR_OUTPUT_BLOCK) : checksum_of(p, n);
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ------------------------------------------------------ memory in pieces */

/* A place in pieces of memory. */
struct place {
	const struct iovec *iov;
	size_t at; /* in its first piece */
};

static const uint8_t *see(const uint8_t *p, size_t n)
{
	return sr_regions_sent(p, n);
}

static void copy(struct place *from, uint8_t *to, size_t n)
{
	while (n) {
		size_t part = smaller(n, from->iov->iov_len - from->at);

		memcpy(to, see((const uint8_t *)from->iov->iov_base + from->at, part), part);
		to += part;
		n -= part;
		from->at += part;
		if (from->at == from->iov->iov_len) {
			from->iov++;
			from->at = 0;
		}
	}
}

/* Returns the next n bytes; in `room`, if they are in several pieces. */
static const uint8_t *next(struct place *from, uint8_t *room, size_t n)
{
	const uint8_t *p;

	if (!n)
		return room; /* there may be no piece left */
	if (from->iov->iov_len - from->at < n) {
		copy(from, room, n);
		return room;
	}
	p = (const uint8_t *)from->iov->iov_base + from->at;
	from->at += n;
	return see(p, n);
}

static size_t total(const struct iovec *iov, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++)
		bytes += iov[i].iov_len;
	return bytes;
}

/* ----------------------------------------------------------------- recorder */

static void put_checksums(struct sr_buf *b, const struct iovec *iov, size_t written)
{
	size_t blocks = (written + SR_OUTPUT_BLOCK - 1) / SR_OUTPUT_BLOCK, n;
	uint8_t *to = sr_buf_room(b, sizeof(uint32_t) * (blocks + 1));
	struct place from = {iov, 0};
	uint8_t room[SR_OUTPUT_BLOCK];
	uint32_t sum = (uint32_t)(sizeof(sum) * blocks);

	if (!to)
		return;
	__builtin_memcpy(to, &sum, sizeof(sum));
	for (; written; written -= n) {
		n = smaller(written, SR_OUTPUT_BLOCK);
		sum = checksum_of_block(next(&from, room, n), n);
		to += sizeof(sum);
		__builtin_memcpy(to, &sum, sizeof(sum));
	}
}

static void put(struct sr_buf *b, const struct iovec *iov, size_t written)
{
	struct place from = {iov, 0};
	uint8_t room[SR_OUTPUT_KEPT];
	size_t kept = smaller(written, sizeof(room));

	sr_put_bytes(b, next(&from, room, kept), kept);
	if (written > kept)
		put_checksums(b, iov, written);
	else
		sr_put_u32(b, 0);
}

static const struct iovec nothing = {.iov_base = ""};

void sr_put_output(struct sr_buf *b, const void *p, size_t count, ssize_t written)
{
	const struct iovec one = {(void *)p, count};

	if (written > 0)
		put(b, &one, (size_t)written);
	else
		put(b, &nothing, 0);
}

void sr_put_gathered_output(struct sr_buf *b, const struct iovec *iov, size_t n, ssize_t written)
{
	sr_put_u64(b, written > 0 ? total(iov, n) : 0);
	if (written > 0)
		put(b, iov, (size_t)written);
	else
		put(b, &nothing, 0);
}

/* ------------------------------------------------------------------- replay */

/* The record of an output, and what the program now has in its place. */
struct both {
	const struct iovec *iov;
	size_t length, recorded_length;
	struct sr_bytes kept, checksums;
};

static void describe(const struct both *o, size_t at, struct place from,
		     struct sr_replay_output *d)
{
	size_t n = smaller(o->length - at, SR_OUTPUT_BLOCK);

	*d = (struct sr_replay_output){
	    .differs = true,
	    .length = o->length,
	    .recorded_length = o->recorded_length,
	    .at = at,
	    .shown = (uint32_t)n,
	    .recorded_shown = at ? 0 : o->kept.n,
	};
	copy(&from, d->bytes, n);
	memcpy(d->recorded, o->kept.p, d->recorded_shown);
}

/* at: of a block whose first n bytes are here now. */
static bool is_as_recorded(const struct both *o, size_t at, const uint8_t *bytes, size_t n)
{
	size_t wanted = smaller(o->recorded_length - at, SR_OUTPUT_BLOCK);
	uint32_t sum;

	if (n != wanted)
		return false;
	if (!o->checksums.n)
		return !memcmp(bytes, o->kept.p, n);
	memcpy(&sum, (const uint8_t *)o->checksums.p + at / SR_OUTPUT_BLOCK * sizeof(sum),
	       sizeof(sum));
	return checksum_of_block(bytes, n) == sum;
}

static void compare(const struct both *o, struct sr_replay_output *d)
{
	size_t common = smaller(o->length, o->recorded_length), n;
	struct place from = {o->iov, 0}, block;
	uint8_t room[SR_OUTPUT_BLOCK];

	for (size_t at = 0; at < o->recorded_length; at += n) {
		block = from;
		n = smaller(common - at, SR_OUTPUT_BLOCK);
		if (!is_as_recorded(o, at, next(&from, room, n), n)) {
			describe(o, at, block, d);
			return;
		}
	}
}

/* Is the record whole?  Bytes that were written are kept, or have checksums. */
static bool is_valid(const struct both *o)
{
	size_t blocks = (o->recorded_length + SR_OUTPUT_BLOCK - 1) / SR_OUTPUT_BLOCK;

	if (o->recorded_length <= SR_OUTPUT_KEPT)
		return o->kept.n == o->recorded_length && !o->checksums.n;
	return o->kept.n == SR_OUTPUT_KEPT && o->checksums.n == blocks * sizeof(uint32_t);
}

/* Can the first bytes be read? */
static bool is_there(const struct iovec *iov, size_t n, size_t bytes)
{
	for (size_t i = 0, part; i < n && bytes; i++, bytes -= part) {
		part = smaller(iov[i].iov_len, bytes);
		if (!sr_is_readable(iov[i].iov_base, part))
			return false;
	}
	return true;
}

static void deliver(struct sr_cursor *c, const struct iovec *iov, size_t n, ssize_t written)
{
	struct both o = {
	    .iov = iov,
	    .recorded_length = written > 0 ? (size_t)written : 0,
	};

	o.kept = sr_get_bytes(c);
	o.checksums = sr_get_bytes(c);
	if (c->bad || !is_valid(&o)) {
		c->bad = true;
		return;
	}
	if (!c->output || !o.recorded_length)
		return;
	if (is_there(iov, n, o.recorded_length))
		o.length = total(iov, n);
	compare(&o, c->output);
}

void sr_deliver_output(struct sr_cursor *c, const void *p, size_t count, ssize_t written)
{
	const struct iovec one = {(void *)p, count};

	deliver(c, &one, 1, written);
}

/* What is longer than recorded is other output, even if the kernel took only a part of it. */
void sr_deliver_gathered_output(struct sr_cursor *c, const struct iovec *iov, size_t n,
				ssize_t written)
{
	uint64_t recorded = sr_get_u64(c);
	bool readable = sr_is_readable(iov, n * sizeof(*iov));

	deliver(c, iov, readable ? n : 0, written);
	if (!c->output || written <= 0 || c->output->differs || total(iov, readable ? n : 0) == recorded)
		return;
	c->output->differs = true;
	c->output->length = total(iov, readable ? n : 0);
	c->output->recorded_length = recorded;
	c->output->at = recorded;
}
