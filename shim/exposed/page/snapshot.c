/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * snapshot.c: reads memory that changes meanwhile.
 *
 * All open pages together must show memory as it was at one moment.  A copy counts as a page's content at a moment if
 * two passes over it agree.  After each sample, at a moment t, every snapshot is compared with the backing mapping:
 * one that is unchanged was so at t as well.  (Memory that changed and changed back in between counts as unchanged:
 * docs/user/exposed-memory.md.)
 */
#include "logd/base/checksum.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/pieces.h"
#include "shim/exposed/page/snapshot.h"

#define TRIES 64

/* Aligned words within a cache line.  A processor may load them one after the other, but each of them whole. */
typedef uint64_t words __attribute__((vector_size(16), may_alias));
typedef words any_words __attribute__((aligned(1)));
typedef uint64_t wide_words __attribute__((vector_size(32), may_alias));
typedef wide_words any_wide_words __attribute__((aligned(1)));

static uint8_t differ_bytes(const char *known, const char *backing, size_t n)
{
	uint8_t differ = 0;

	for (size_t i = 0; i < n; i++)
		differ |= (uint8_t)(known[i] ^ *(const volatile char *)(backing + i));
	return differ;
}

/*
 * Not memcmp(): that finds a difference, reads the place again, and may find none.  What differed once has changed,
 * so each word is loaded once, in the order of addresses.  The backing mapping is aligned, and n a multiple of what
 * one turn compares.
 */
static bool is_equal_words(const char *known, const char *backing, size_t n)
{
	words differ = {0, 0};

	for (size_t i = 0; i < n; i += 4 * sizeof(words)) {
		const any_words *k = (const any_words *)(known + i);
		const volatile words *l = (const volatile words *)(backing + i);

		differ |= (k[0] ^ l[0]) | (k[1] ^ l[1]) | (k[2] ^ l[2]) | (k[3] ^ l[3]);
	}
	return !(differ[0] | differ[1]);
}

__attribute__((target("avx2"))) static bool is_equal_wide(const char *known, const char *backing,
						       size_t n)
{
	wide_words differ = {0, 0, 0, 0}, also = differ;

	for (size_t i = 0; i < n; i += 4 * sizeof(wide_words)) {
		const any_wide_words *k = (const any_wide_words *)(known + i);
		const volatile wide_words *l = (const volatile wide_words *)(backing + i);

		differ |= (k[0] ^ l[0]);
		also |= (k[1] ^ l[1]);
		differ |= (k[2] ^ l[2]);
		also |= (k[3] ^ l[3]);
	}
	differ |= also;
	return !(differ[0] | differ[1] | differ[2] | differ[3]);
}

bool has_wide_words;

#define TURN (4 * sizeof(wide_words))

bool is_equal(const char *known, const char *backing, size_t n)
{
	size_t head = -(uintptr_t)backing % sizeof(wide_words), body;

	if (n < head + TURN)
		return !differ_bytes(known, backing, n);
	body = (n - head) / TURN * TURN;
	return !differ_bytes(known, backing, head) &&
	       (has_wide_words ? is_equal_wide : is_equal_words)(known + head, backing + head, body) &&
	       !differ_bytes(known + head + body, backing + head + body, n - head - body);
}

/* A request that lands goes on within such a time, unless who carries it out has lost its processor. */
#define PAUSES 16

static void pause_a_moment(void)
{
	for (int i = 0; i < PAUSES; i++)
		__builtin_ia32_pause();
}

static enum copy copy_page(char *to, const char *from)
{
	memcpy(to, from, PAGE);
	/* The compiler must not merge the passes.  The processor does its loads in order. */
	atomic_signal_fence(memory_order_seq_cst);
	if (!is_equal(to, from, PAGE))
		return COPY_TORN;
	/* What is left out of the trace a replay finds again as whole requests. */
	if (!hooks.together)
		return COPY_STILL;
	pause_a_moment();
	return is_equal(to, from, PAGE) ? COPY_STILL : COPY_WHOLE;
}

enum copy snapshot(uintptr_t user, char to[PAGE])
{
	const char *from = backing_of(page_at(user), user);
	enum copy copy = COPY_TORN;

	for (int i = 0; i < TRIES && copy != COPY_STILL; i++)
		copy = copy_page(to, from);
	return copy;
}

static uint64_t digest(const char *page)
{
	return sr_checksum(page, PAGE, 0);
}

void note_digest(uintptr_t user)
{
	struct page *p = page_at(user);

	p->digest = digest(backing_of(p, user));
	p->digested = true;
}

void note_digest_of_zeros(struct page *p)
{
	static const char zeros[PAGE];
	static uint64_t of_zeros;

	if (!of_zeros)
		of_zeros = digest(zeros);
	p->digest = of_zeros;
	p->digested = true;
}

static bool is_equal_to_digest(const struct page *p, const char *now, size_t length)
{
	return p->digested && length == PAGE && digest(now) == p->digest;
}

/* Which bits of 8 bytes differ. */
static inline uint64_t bits_that_differ(const char *known, const char *now)
{
	uint64_t a, b;

	__builtin_memcpy(&a, known, sizeof(a));
	__builtin_memcpy(&b, now, sizeof(b));
	return a ^ b;
}

/* Where the bytes next differ, from i on; `length`: nowhere. */
static size_t next_difference(const char *known, const char *now, size_t i, size_t length)
{
	while (i + sizeof(uint64_t) <= length && !bits_that_differ(known + i, now + i))
		i += sizeof(uint64_t);
	while (i < length && known[i] == now[i])
		i++;
	return i;
}

/* Fewer than 8 equal bytes cost less than the head of another value. */
#define APART 8

static size_t end_of_difference(const char *known, const char *now, size_t i, size_t length)
{
	size_t end = i;

	for (; i + sizeof(uint64_t) <= length; i += sizeof(uint64_t)) {
		uint64_t differ = bits_that_differ(known + i, now + i);

		if (!differ || i + (size_t)__builtin_ctzll(differ) / 8 - end >= APART)
			return end;
		end = i + sizeof(uint64_t) - (size_t)__builtin_clzll(differ) / 8;
	}
	for (; i < length && i - end < APART; i++)
		if (known[i] != now[i])
			end = i + 1;
	return end;
}

/*
 * Something new was found.  The page is one that peers write, unless a READ of this process was to bring that; all that
 * it brought counts, if it is found before the next call.
 */
static void note_found(struct page *p)
{
	uint64_t epoch = thread_epoch();

	if (p->fetched)
		p->fetched_epoch = epoch;
	p->fetched = false;
	p->by_peers |= p->fetched_epoch != epoch;
}

static void record_all(struct page *p, uintptr_t addr, const char *now, size_t length, uint32_t flags, bool still)
{
	if (!is_equal_to_digest(p, now, length)) {
		if (!(flags & SR_EXPOSED_ASYNC))
			note_found(p);
		event_value(addr, now, (uint32_t)length, flags, still);
	}
	memcpy(shadow_to_change(addr), now, length);
}

static void record(uintptr_t addr, const char *now, size_t length, uint32_t flags, bool still)
{
	struct page *p = page_at(addr);
	char *shadow = shadow_of(addr);
	size_t i, end;

	if (!p->shadow_valid) {
		record_all(p, addr, now, length, flags, still);
		return;
	}
	if (!memcmp(shadow, now, length))
		return;
	if (p->pieces && !p->whole) {
		pieces_pass_over(addr, now, length);
		if (!memcmp(shadow, now, length))
			return;
	}
	if (!(flags & SR_EXPOSED_ASYNC))
		note_found(p);
	p->repeats = 0;
	if (changes_expected())
		p->loads = 0;
	for (i = 0; (i = next_difference(shadow, now, i, length)) < length; i = end) {
		end = end_of_difference(shadow, now, i, length);
		memcpy(shadow_to_change(addr + i), now + i, end - i);
		event_value(addr + i, now + i, (uint32_t)(end - i), flags, still);
	}
}

void record_difference(uintptr_t addr, const char *now, size_t length, uint32_t flags)
{
	record(addr, now, length, flags, false);
}

void record_snapshot(uintptr_t user, const char now[PAGE], enum copy copy, uint32_t flags)
{
	record(user, now, PAGE, flags, copy == COPY_STILL);
}

void record_page(uintptr_t user, uint32_t flags)
{
	static char now[PAGE];
	enum copy copy = snapshot(user, now);

	counts.unstable += copy == COPY_TORN;
	record_snapshot(user, now, copy, flags);
	page_at(user)->shadow_valid = true;
}

void validate_shadow(uintptr_t user, struct page *p)
{
	if (!p->shadow_valid)
		record_page(user, 0);
}

void validate_shadow_before_store(uintptr_t addr)
{
	struct page *p = page_at(addr);

	if (p->digested && !p->shadow_valid && p->state != PAGE_PASS_THROUGH && !exposed_self.silent)
		validate_shadow(addr & PAGE_MASK, p);
}
