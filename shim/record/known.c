/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/known.h"

#include <sys/uio.h>

#include "logd/base/checksum.h"
#include "logd/base/rawsys.h"
#include "shim/memory/heap.h"
#include "shim/verbs/regions.h"

/* A reference takes 16 bytes and a look-up: fewer bytes are copied. */
#define BLOCK_MIN 1024u
#define BLOCK_MOST (64u << 10)
#define BLOCKS 512u
/* After so many records in a row without a known block, most of the next ones are not looked at. */
#define TRIES 32u
#define TRIES_AGAIN 8u
#define PAUSE 256u

struct block {
	uint64_t checksum, position;
	uint32_t size; /* 0: there is none */
};

struct sr_known {
	uint64_t seed;
	uint32_t tries; /* records that are looked at, until one refers */
	uint32_t pause; /* ... and those that are not */
	struct block blocks[BLOCKS];
};

/* Of a record's payload, in order. */
struct part {
	const void *from;
	uint32_t size;
	bool is_block; /* it has a checksum */
	bool is_known; /* ... which the stream has, at `position` */
	uint64_t checksum, position;
};

/* In a thread's buffer: what is done with a record. */
struct work {
	struct part *parts;
	struct iovec *iov;
	struct sr_reference *references;
	uint32_t parts_n, references_n;
};

void sr_known_free(struct sr_thread *t)
{
	sr_free(t->known);
	t->known = NULL;
}

static struct sr_known *known_of(struct sr_thread *t)
{
	if (t->known)
		return t->known;
	t->known = sr_alloc(sizeof(*t->known));
	if (!t->known)
		return NULL;
	memset(t->known, 0, sizeof(*t->known));
	t->known->tries = TRIES;
	sr_syscall(SYS_getrandom, SR_ARG(&t->known->seed), sizeof(t->known->seed), 0, 0, 0, 0);
	return t->known;
}

static struct block *place_of(struct sr_known *known, uint64_t checksum)
{
	return &known->blocks[checksum % BLOCKS];
}

static void add_part(struct work *w, const void *from, uint32_t size)
{
	if (size)
		w->parts[w->parts_n++] = (struct part){.from = from, .size = size};
}

static void add_block(struct work *w, struct sr_known *known, const unsigned char *from, uint32_t size)
{
	struct part *p = &w->parts[w->parts_n];
	const struct block *b;

	add_part(w, from, size);
	if (size < BLOCK_MIN)
		return;
	p->is_block = true;
	p->checksum = sr_checksum(from, size, known->seed);
	b = place_of(known, p->checksum);
	if (b->size != size || b->checksum != p->checksum)
		return;
	p->is_known = true;
	p->position = b->position;
	w->references_n++;
}

/* Bytes near an exposed region may fault, which only a plain copy may do. */
static void add_piece(struct work *w, struct sr_known *known, const struct sr_received_piece *a)
{
	const unsigned char *from = a->addr;
	uint32_t left = a->length, n;

	if (sr_regions_is_near(a->addr)) {
		add_part(w, from, left);
		return;
	}
	for (; left; from += n, left -= n) {
		n = left < BLOCK_MOST ? left : BLOCK_MOST;
		add_block(w, known, from, n);
	}
}

/* Another request has brought the piece in front to the same place. */
static void add_again(struct work *w, uint32_t first, uint32_t n)
{
	for (uint32_t i = first; i < first + n; i++) {
		w->parts[w->parts_n++] = w->parts[i];
		w->references_n += w->parts[i].is_known;
	}
}

/* Lists what the record consists of: what was encoded, up to each gathered piece, and these. */
static void take_apart(struct work *w, struct sr_known *known, const struct sr_buf *b,
		       const struct sr_received *received)
{
	uint32_t from = 0, before = 0, n = 0; /* parts of the piece in front */

	for (uint32_t i = 0; i < received->count; i++) {
		const struct sr_received_piece *a = &received->pieces[i];
		uint32_t first;
		bool again = n && a->addr == a[-1].addr && a->length == a[-1].length;

		if (!a->at)
			continue;
		add_part(w, b->p + from, a->at - from);
		first = w->parts_n;
		if (again)
			add_again(w, before, n);
		else
			add_piece(w, known, a);
		before = first;
		n = w->parts_n - first;
		from = a->at;
	}
	add_part(w, b->p + from, (uint32_t)b->len - from);
}

/* The program's longest records have some thousand parts; those of more are not looked at. */
static bool make_room(struct sr_thread *t, const struct sr_received *received, struct work *w)
{
	uint64_t most = 3ull * received->count + 1 + received->gathered / BLOCK_MOST;
	size_t of_each = sizeof(*w->parts) + sizeof(*w->iov) + sizeof(*w->references);
	void *room;

	t->last.len = 0;
	room = sr_buf_room(&t->last, most * of_each + 2 * sizeof(*w->iov));
	t->last.len = 0;
	*w = (struct work){.parts = room};
	if (!room)
		return false;
	w->references = (void *)(w->parts + most);
	w->iov = (void *)(w->references + most);
	return true;
}

/* What is written; *count: behind the references.  Returns how many there are. */
static int list_written(struct work *w, const uint32_t *count)
{
	uint64_t offset = 0;
	uint32_t r = 0;
	int n = 0;

	for (uint32_t i = 0; i < w->parts_n; i++) {
		const struct part *p = &w->parts[i];

		if (p->is_known)
			w->references[r++] =
			    (struct sr_reference){p->position, (uint32_t)offset, p->size};
		else
			w->iov[n++] = (struct iovec){(void *)p->from, p->size};
		offset += p->size;
	}
	if (!r)
		return n;
	w->iov[n++] = (struct iovec){w->references, r * sizeof(*w->references)};
	w->iov[n++] = (struct iovec){(void *)count, sizeof(*count)};
	return n;
}

/* The blocks that were written are known from here on. */
static void learn(struct sr_thread *t, const struct work *w, uint64_t begin)
{
	uint64_t offset = 0;

	for (uint32_t i = 0; i < w->parts_n; i++) {
		const struct part *p = &w->parts[i];
		struct block b = {.size = p->size};
		const void *written;

		if (p->is_known)
			continue;
		written = p->is_block ? sr_ring_written(&t->ring, begin, offset, p->size, &b.position) : NULL;
		offset += p->size;
		if (!written)
			continue;
		b.checksum = sr_checksum(written, p->size, t->known->seed);
		*place_of(t->known, b.checksum) = b;
	}
}

static void count_tries(struct sr_known *known, bool refers)
{
	if (refers) {
		known->tries = TRIES;
	} else if (!--known->tries) {
		known->tries = TRIES_AGAIN;
		known->pause = PAUSE;
	}
}

bool sr_known_emit(struct sr_thread *t, uint16_t kind, const struct sr_received *received)
{
	struct sr_known *known = received->gathered < BLOCK_MIN ? NULL : known_of(t);
	struct work w;
	uint64_t begin;
	int n;

	if (!known || received->gathered > UINT32_MAX / 2)
		return false;
	if (known->pause) {
		known->pause--;
		return false;
	}
	if (!make_room(t, received, &w))
		return false;
	take_apart(&w, known, &t->buf, received);
	n = list_written(&w, &w.references_n);
	count_tries(known, w.references_n);
	if (!sr_ring_writev_at(&t->ring, kind, w.references_n ? SR_RECORD_REFERS : 0, w.iov, n, &begin))
		learn(t, &w, begin);
	return true;
}
