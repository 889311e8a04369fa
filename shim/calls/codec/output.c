/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/codec/output.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "logd/base/checksum.h"
#include "logd/base/iov.h"
#include "logd/base/rawsys.h"
#include "replay/abi/control.h"
#include "shim/files/fds.h"
#include "shim/files/uncompared.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"
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

/* ----------------------------------------------------------------- recorder */

/* Appends the checksums of the next bytes. */
static uint8_t *store_checksums(uint8_t *to, struct place from, size_t left)
{
	uint8_t room[SR_OUTPUT_BLOCK];
	uint32_t sum;
	size_t n;

	for (; left; left -= n) {
		n = smaller(left, SR_OUTPUT_BLOCK);
		sum = checksum_of_block(next(&from, room, n), n);
		__builtin_memcpy(to, &sum, sizeof(sum));
		to += sizeof(sum);
	}
	return to;
}

/* Puts the length of so many bytes' checksums, and makes room for them. */
static uint8_t *begin_checksums(struct sr_buf *b, size_t written)
{
	size_t bytes = sizeof(uint32_t) * ((written + SR_OUTPUT_BLOCK - 1) / SR_OUTPUT_BLOCK);

	sr_put_u32(b, (uint32_t)bytes);
	return sr_buf_room(b, bytes);
}

static void put_checksums(struct sr_buf *b, const struct iovec *iov, size_t written)
{
	uint8_t *to = begin_checksums(b, written);

	if (to)
		store_checksums(to, (struct place){iov, 0}, written);
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

bool sr_vmsplice_reads(int fd)
{
	return (sr_sys_fcntl(fd, F_GETFL, 0) & O_ACCMODE) == O_RDONLY;
}

void sr_put_gathered_output(struct sr_buf *b, const struct iovec *iov, size_t n, ssize_t written)
{
	sr_put_u64(b, written > 0 ? sr_iov_bytes(iov, n) : 0);
	if (written > 0)
		put(b, iov, (size_t)written);
	else
		put(b, &nothing, 0);
}

/* ------------------------------------------------------------------- replay */

/* The record of an output, and what the program now has in its place. */
struct both {
	size_t length, recorded_length;
	struct sr_bytes kept, checksums;
};

/* from: the block, of which the program has n bytes. */
static void describe(const struct both *o, size_t at, struct place from, size_t n,
		     struct sr_replay_output *d)
{
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

/* Compares what the program has from one place of the output on with what was recorded there. */
static bool compare_part(const struct both *o, size_t at, const struct iovec *iov, size_t length,
			 struct sr_replay_output *d)
{
	size_t end = smaller(at + length, o->recorded_length), start = at, n;
	struct place from = {iov, 0}, block;
	uint8_t room[SR_OUTPUT_BLOCK];

	for (; at < end; at += n) {
		block = from;
		n = smaller(end - at, SR_OUTPUT_BLOCK);
		if (!is_as_recorded(o, at, next(&from, room, n), n)) {
			n = smaller(start + length - at, SR_OUTPUT_BLOCK);
			describe(o, at, block, n, d);
			return false;
		}
	}
	return true;
}

static void compare(const struct both *o, const struct iovec *iov, struct sr_replay_output *d)
{
	if (compare_part(o, 0, iov, o->length, d) && o->length < o->recorded_length)
		describe(o, o->length, (struct place){iov, 0}, 0, d);
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

/* Takes the record; returns false if there is nothing to compare. */
static bool take(struct sr_cursor *c, ssize_t written, struct both *o)
{
	*o = (struct both){.recorded_length = written > 0 ? (size_t)written : 0};
	o->kept = sr_get_bytes(c);
	o->checksums = sr_get_bytes(c);
	return !c->bad && c->output && o->recorded_length;
}

static void deliver(struct sr_cursor *c, const struct iovec *iov, size_t n, ssize_t written)
{
	struct both o;

	if (!take(c, written, &o))
		return;
	if (!is_valid(&o)) {
		c->bad = true;
		return;
	}
	if (is_there(iov, n, o.recorded_length))
		o.length = sr_iov_bytes(iov, n);
	compare(&o, iov, c->output);
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
	size_t now = sr_iov_bytes(iov, readable ? n : 0);

	deliver(c, iov, readable ? n : 0, written);
	if (!c->output || written <= 0 || c->output->differs || now == recorded)
		return;
	*c->output = (struct sr_replay_output){
	    .differs = true, .length = now, .recorded_length = recorded, .at = recorded};
}

/* ------------------------------------------------- from descriptor to descriptor */

/* A piece of the file from which bytes are moved; a multiple of a block. */
#define CHUNK (64 << 10)

struct source {
	int fd;
	int64_t at; /* of the next byte; -1: they cannot be read again */
	uint8_t *chunk;
};

/* moved: how many bytes in front of its position the call has already taken. */
static struct source begin_source(int fd, const off_t *at, size_t moved)
{
	struct source s = {.fd = fd, .at = -1, .chunk = sr_fd_captured(fd) ? NULL : sr_alloc(CHUNK)};

	if (s.chunk)
		s.at = (at ? *at : sr_syscall(SYS_lseek, fd, 0, SEEK_CUR, 0, 0, 0)) - (int64_t)moved;
	return s;
}

static size_t read_chunk(struct source *s, size_t left)
{
	size_t wanted = smaller(left, CHUNK), n = 0;
	long got = 1;

	while (s->at >= 0 && n < wanted && got > 0) {
		got = sr_syscall(SYS_pread64, s->fd, SR_ARG(s->chunk + n), (long)(wanted - n), s->at,
				 0, 0);
		if (got <= 0)
			break;
		s->at += got;
		n += (size_t)got;
	}
	return n;
}

/* Returns false if not all can be read. */
static bool put_source(struct sr_buf *b, struct source *s, size_t written)
{
	size_t n = read_chunk(s, written);
	const struct iovec chunk = {s->chunk, n};
	uint8_t *to;

	if (n == written) {
		put(b, &chunk, n);
		return true;
	}
	if (n < SR_OUTPUT_KEPT)
		return false;
	sr_put_bytes(b, s->chunk, SR_OUTPUT_KEPT);
	to = begin_checksums(b, written);
	for (; to && n; n = read_chunk(s, written)) {
		to = store_checksums(to, (struct place){&chunk, 0}, n);
		written -= n;
		if (n % SR_OUTPUT_BLOCK)
			break;
	}
	return !written;
}

void sr_put_moved_output(struct sr_buf *b, int from, const off_t *at, ssize_t written)
{
	size_t n = written > 0 ? (size_t)written : 0, begin = b->len;
	struct source s = begin_source(from, n ? at : NULL, n);

	if (!put_source(b, &s, n)) {
		b->len = begin;
		put(b, &nothing, 0);
	}
	sr_free(s.chunk);
}

/* The call has not been made, so the bytes begin at the position. */
void sr_deliver_moved_output(struct sr_cursor *c, int from, const off_t *at, ssize_t written)
{
	struct source s;
	struct both o;
	size_t n;

	if (!take(c, written, &o))
		return;
	/* The recorder could not read these bytes again. */
	if (!o.kept.n) {
		sr_output_is_uncompared(SR_UNCOMPARED_MOVED);
		return;
	}
	if (!is_valid(&o)) {
		c->bad = true;
		return;
	}
	s = begin_source(from, at, 0);
	while ((n = read_chunk(&s, o.recorded_length - o.length))) {
		const struct iovec chunk = {s.chunk, n};

		o.length += n;
		if (!compare_part(&o, o.length - n, &chunk, n, c->output))
			break;
	}
	if (!c->output->differs && o.length < o.recorded_length)
		describe(&o, o.length, (struct place){&nothing, 0}, 0, c->output);
	sr_free(s.chunk);
}

/* ------------------------------------------------------------ stored into files */

void sr_put_mapped_output(struct sr_buf *b, const uint64_t *piece)
{
	const struct iovec one = {(void *)(uintptr_t)piece[SR_PIECE_COPY], piece[SR_PIECE_LENGTH]};

	put(b, piece[SR_PIECE_LENGTH] ? &one : &nothing, piece[SR_PIECE_LENGTH]);
}

void sr_deliver_mapped_output(struct sr_cursor *c, const uint64_t *piece)
{
	const struct iovec one = {(void *)(uintptr_t)piece[SR_PIECE_ADDR], piece[SR_PIECE_LENGTH]};

	if (!one.iov_len)
		sr_output_is_uncompared(SR_UNCOMPARED_MAPPED);
	deliver(c, &one, 1, (ssize_t)one.iov_len);
}
