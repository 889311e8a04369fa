/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/threads/place.h"

#include <string.h>
#include <sys/uio.h>

#include "logd/base/checksum.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/x86/vector.h"

#define REGISTER_SP 4
#define XMM_BYTES   16

size_t sr_place_read(void *to, uint64_t from, size_t n)
{
	const struct iovec here = {to, n}, there = {(void *)from, n};
	long got = sr_sys_read_self(&here, &there, 1);

	return got < 0 ? 0 : (size_t)got;
}

uint64_t sr_place_sum_vectors(const char *vectors, uint32_t bits)
{
	uint64_t sum = 0;

	for (int i = 0; i < 16; i++)
		if (bits >> i & 1)
			sum = sr_checksum(vectors + i * XMM_BYTES, XMM_BYTES, sum);
	return sum;
}

/* In pieces, since the shim's stack, and that of a handler, is small. */
#define PIECE 256

static void put_recorded(char piece[PIECE], size_t n, const struct sr_place_ids *ids)
{
	uint32_t half;

	for (size_t at = 0; at + sizeof(half) <= n; at += sizeof(half)) {
		memcpy(&half, piece + at, sizeof(half));
		if (half == ids->real)
			memcpy(piece + at, &ids->recorded, sizeof(half));
	}
}

/*
 * readable: without the kernel's help.  Else *bytes becomes less where the stack ends before.  ids: with the recorded id wherever
 * the real one is; NULL: as it is.
 */
static uint64_t sum_stack(uint64_t sp, uint64_t *bytes, bool readable, const struct sr_place_ids *ids)
{
	uint64_t sum = 0, wanted = *bytes, at = 0;
	const bool in_place = readable && !ids;
	char piece[PIECE];

	while (at < wanted) {
		size_t n = wanted - at < PIECE ? wanted - at : PIECE, got = n;

		if (!readable)
			got = sr_place_read(piece, sp + at, n);
		else if (ids)
			memcpy(piece, (const void *)(sp + at), n);
		if (ids)
			put_recorded(piece, got, ids);
		sum = sr_checksum(in_place ? (const void *)(sp + at) : piece, got, sum);
		at += got;
		if (got < n)
			break;
	}
	*bytes = at;
	return sum;
}

void sr_place_take_stack(struct sr_place_payload *p, uint64_t top, uint64_t most)
{
	uint64_t sp = p->registers[REGISTER_SP];

	p->stack_bytes = most;
	if (sp < top && top - sp < most)
		p->stack_bytes = top - sp;
	/* A thread on a stack of its own making; or in its outermost function. */
	if (sp >= top && sp - top < most)
		p->stack_bytes = 0;
	p->stack_sum = sum_stack(sp, &p->stack_bytes, false, NULL);
}

void sr_place_take_words(struct sr_place *place)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < place->p.words; i++) {
		struct sr_place_word w = {.addr = place->word[i].addr};

		if (sr_place_read(&w.value, w.addr, sizeof(w.value)) == sizeof(w.value))
			place->word[kept++] = w;
	}
	place->p.words = kept;
}

NO_VECTORS bool sr_place_has_registers(const struct sr_place_payload *p, const uint64_t r[16])
{
	for (int i = 0; i < 16; i++)
		if (p->compared >> i & 1 && p->registers[i] != r[i])
			return false;
	return true;
}

NO_VECTORS static inline uint32_t recorded(uint32_t half, const struct sr_place_ids *ids)
{
	return half == ids->real ? ids->recorded : half;
}

NO_VECTORS static inline bool is_word(uint64_t now, uint64_t value, const struct sr_place_ids *ids)
{
	return now == value || (recorded((uint32_t)now, ids) | (uint64_t)recorded((uint32_t)(now >> 32), ids) << 32) == value;
}

NO_VECTORS bool sr_place_has_words(const struct sr_place *place, const struct sr_place_ids *ids)
{
	for (uint32_t i = 0; i < place->p.words; i++)
		if (!is_word(*(const volatile uint64_t *)place->word[i].addr, place->word[i].value, ids))
			return false;
	return true;
}

/* Memory that is protected, because other processes write it, cannot be read like this. */
bool sr_place_is_readable(const struct sr_place *place)
{
	struct sr_place now = {.p.words = place->p.words};
	uint64_t bytes = place->p.stack_bytes;

	memcpy(now.word, place->word, sizeof(now.word));
	sr_place_take_words(&now);
	sum_stack(place->p.registers[REGISTER_SP], &bytes, false, NULL);
	return now.p.words == place->p.words && bytes == place->p.stack_bytes;
}

/* Also where some may be missing. */
static bool has_words(const struct sr_place *place, const struct sr_place_ids *ids)
{
	struct sr_place now = {.p.words = place->p.words};

	memcpy(now.word, place->word, sizeof(now.word));
	sr_place_take_words(&now);
	if (now.p.words != place->p.words)
		return false;
	for (uint32_t i = 0; i < now.p.words; i++)
		if (!is_word(now.word[i].value, place->word[i].value, ids))
			return false;
	return true;
}

static bool has_sum(const struct sr_place_payload *p, bool readable, const struct sr_place_ids *ids)
{
	uint64_t bytes = p->stack_bytes;

	return p->stack_sum == sum_stack(p->registers[REGISTER_SP], &bytes, readable, ids);
}

/* Most loops hold no lock, and come by a million times. */
static bool may_hold_lock(const struct sr_place_payload *p, bool readable, const struct sr_place_ids *ids)
{
	const uint32_t *half = (const uint32_t *)p->registers[REGISTER_SP];

	for (size_t i = 0; readable && i < p->stack_bytes / sizeof(*half); i++)
		if (half[i] == ids->real)
			return true;
	return !readable;
}

/* A program may also keep the id that gettid() has told it, which is the recorded one: then nothing is to be put there. */
static bool has_stack(const struct sr_place_payload *p, bool readable, const struct sr_place_ids *ids)
{
	return has_sum(p, readable, NULL) || (may_hold_lock(p, readable, ids) && has_sum(p, readable, ids));
}

bool sr_place_is(const struct sr_place *place, bool readable, const struct sr_place_ids *ids, uint64_t heap_position,
		 const char *vectors)
{
	const struct sr_place_payload *p = &place->p;

	if (p->heap_position != heap_position || !(readable ? sr_place_has_words(place, ids) : has_words(place, ids)))
		return false;
	/* Nothing else matters to a loop that comes back to where it was. */
	if (p->flags & SR_PLACE_SPIN)
		return true;
	return sr_place_sum_vectors(vectors, p->vectors) == p->vectors_sum && has_stack(p, readable, ids);
}
