/* SPDX-License-Identifier: BSD-2-Clause */
/* gather.c: what the shim loads in the program's place, since the program lets a call load it: what is sent, and what is output. */
#include "logd/base/checksum.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/snapshot.h"
#include "shim/exposed/page/states.h"

static void gather_begins(uintptr_t at)
{
	/* Within a call the program's handlers wait for its end, so none need be blocked. */
	exposed_lock(NULL);
	event_begin(++exposed_self.fault, 0, 0, at);
	note_access(at, false);
	replay_values();
}

static void gather_ends(void)
{
	check_snapshots();
	replay_protected();
	event_end();
	exposed_unlock(NULL);
}

static void sample(uintptr_t at, uintptr_t end)
{
	for (uintptr_t stop; at < end; at = stop) {
		stop = end_of_piece(at, end);
		take_sample(at, stop - at);
	}
}

const void *sr_exposed_gather(const void *addr, size_t length)
{
	uintptr_t at = (uintptr_t)addr;

	gather_begins(at);
	sample(at, at + length);
	gather_ends();
	return shadow_of(at);
}

void sr_exposed_load(const void *addr, void *to, size_t length)
{
	const uintptr_t begin = (uintptr_t)addr, end = begin + length;

	if (to)
		sr_exposed_copy(addr, to, length);
	gather_begins(begin);
	for (uintptr_t at = begin, stop; at < end; at = stop) {
		stop = end_of_piece(at, end);
		if (!page_is_exposed(at))
			continue;
		take_sample(at, stop - at);
		if (to)
			memcpy((char *)to + (at - begin), shadow_of(at), stop - at);
	}
	gather_ends();
}

/* ------------------------------------------------------------- checksums of what is sent */

/* A range that was sent: what the program knew of it, as long as the shadow copies were not changed since. */
struct sent {
	uintptr_t addr;
	size_t length;
	uint64_t changes, sum;
	uint32_t doubtful; /* others have written there lately: the next so many times it is compared at once */
};

#define SENT_MAX   64
#define SENT_LEAST 512 /* shorter ones are compared as soon as they are looked up */
#define COMPARED_MOST (16ul << 10)
#define DOUBTFUL   16

static struct sent sent[SENT_MAX];

static struct sent *sent_at(uintptr_t addr, size_t length, uint64_t seed)
{
	return length < SENT_LEAST || seed ? NULL : &sent[(addr / 64 * 31 + addr / PAGE + length) % SENT_MAX];
}

/* Is all of it known, and in the backing mapping?  changes: of its shadow copies so far. */
static bool is_settled(uintptr_t at, uintptr_t end, uint64_t *changes)
{
	*changes = 0;
	for (at &= PAGE_MASK; at < end; at += PAGE) {
		const struct page *p = page_at(at);

		if (!p->shadow_valid || (p->state != PAGE_PROTECTED && !is_snapshot(p)))
			return false;
		*changes += shadow_changes[at / PAGE % SHADOW_COUNTS];
	}
	return true;
}

/*
 * Is what is known still there?  Where both fit into the processor's nearest cache, a comparison takes half as long as a
 * checksum; else the checksum reads half as much.
 */
static bool is_there(const struct sent *s, uintptr_t addr, size_t length)
{
	const void *there = (const void *)(BACKING_BASE + offset_of(addr));

	if (length <= COMPARED_MOST)
		return !memcmp(there, shadow_of(addr), length);
	return sr_checksum(there, length, 0) == s->sum;
}

static bool is_as_sent(struct sent *s, uintptr_t addr, size_t length)
{
	uint64_t changes;

	if (!s || s->addr != addr || s->length != length || (s->doubtful && s->doubtful--) ||
	    !is_settled(addr, addr + length, &changes) || changes != s->changes)
		return false;
	if (is_there(s, addr, length))
		return true;
	s->doubtful = DOUBTFUL;
	return false;
}

static void note_sent(struct sent *s, uintptr_t addr, size_t length, uint64_t sum)
{
	uint32_t doubtful = s->addr == addr && s->length == length ? s->doubtful : 0;
	uint64_t changes;

	if (is_settled(addr, addr + length, &changes))
		*s = (struct sent){addr, length, changes, sum, doubtful};
}

uint64_t sr_exposed_checksum(const void *addr, size_t length, uint64_t seed)
{
	uintptr_t at = (uintptr_t)addr;
	struct sent *s = sent_at(at, length, seed);
	uint64_t sum;

	gather_begins(at);
	if (is_as_sent(s, at, length)) {
		sum = s->sum;
	} else {
		sample(at, at + length);
		sum = sr_checksum(shadow_of(at), length, seed);
		if (s)
			note_sent(s, at, length, sum);
	}
	gather_ends();
	return sum;
}
