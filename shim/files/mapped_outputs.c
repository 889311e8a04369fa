/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/mapped_outputs.h"

#include <fcntl.h>
#include <sys/uio.h>

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/run_token.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"
#include "shim/files/uncompared.h"
#include "shim/memory/heap.h"

/* ------------------------------------------------------------ the mappings */

#define MAPPINGS 64

struct mapping {
	uintptr_t begin, end;
	bool stores, shared;
};

static struct {
	struct sr_lock lock;
	size_t n;
	struct mapping list[MAPPINGS];
	bool is_full; /* there was one more */
} mapped;

/* Holds the lock.  At the process's end it is compared, unless there is none. */
static void tell_of_stores(void)
{
	bool any = false;

	for (size_t i = 0; i < mapped.n; i++)
		any |= mapped.list[i].stores;
	if (any)
		sr_output_is_uncompared(SR_UNCOMPARED_KILLED);
	else
		sr_output_is_compared(SR_UNCOMPARED_KILLED);
}

void sr_mapped_output_begins(void *addr, size_t size, bool stores)
{
	const uintptr_t begin = (uintptr_t)addr;

	sr_lock(&mapped.lock);
	if (mapped.n < MAPPINGS)
		mapped.list[mapped.n++] = (struct mapping){begin, begin + sr_page_up(size), stores, false};
	else
		mapped.is_full = true;
	tell_of_stores();
	sr_unlock(&mapped.lock);
}

static bool meets(const struct mapping *m, uintptr_t begin, uintptr_t end)
{
	return m->begin < end && begin < m->end;
}

void sr_mapped_output_stores(void *addr, size_t size)
{
	const uintptr_t begin = (uintptr_t)addr;

	if (!mapped.n)
		return;
	sr_lock(&mapped.lock);
	for (size_t i = 0; i < mapped.n; i++)
		if (meets(&mapped.list[i], begin, begin + size))
			mapped.list[i].stores = true;
	tell_of_stores();
	sr_unlock(&mapped.lock);
}

void sr_mapped_outputs_shared(void)
{
	sr_lock(&mapped.lock);
	for (size_t i = 0; i < mapped.n; i++)
		mapped.list[i].shared = true;
	sr_unlock(&mapped.lock);
}

void sr_mapped_outputs_in_child(void)
{
	mapped.lock = (struct sr_lock){0};
}

/* The part of a mapping that lies in a range, if there is one: from *at on in the list. */
static bool next_part(uintptr_t begin, uintptr_t end, size_t *at, struct mapping *part)
{
	bool found = false;

	*part = (struct mapping){0};
	sr_lock(&mapped.lock);
	for (; *at < mapped.n && !found; ++*at) {
		*part = mapped.list[*at];
		found = meets(part, begin, end);
	}
	sr_unlock(&mapped.lock);
	if (part->begin < begin)
		part->begin = begin;
	if (part->end > end)
		part->end = end;
	return found;
}

/* What lies on both sides of the range stays. */
static void forget(uintptr_t begin, uintptr_t end)
{
	sr_lock(&mapped.lock);
	for (size_t i = mapped.n; i--;) {
		struct mapping m = mapped.list[i];

		if (!meets(&m, begin, end))
			continue;
		mapped.list[i] = mapped.list[--mapped.n];
		if (m.begin < begin)
			mapped.list[mapped.n++] = (struct mapping){m.begin, begin, m.stores, m.shared};
		if (end >= m.end)
			continue;
		if (mapped.n < MAPPINGS)
			mapped.list[mapped.n++] = (struct mapping){end, m.end, m.stores, m.shared};
		else
			mapped.is_full = true;
	}
	tell_of_stores();
	sr_unlock(&mapped.lock);
}

/* ---------------------------------------------------------------- pieces */

/*
 * So much is compared of all mappings: a checksum takes about as long as it took the program to touch the page, but a large
 * database may be synchronised over and over.
 */
#define BYTES_MAX (256ul << 20)
#define SYNCED_MAX (1ul << 20)
#define PIECE (64ul << 10)

static _Atomic uint64_t compared;

/* How much of it is there. */
static size_t copy(void *to, const void *from, size_t n)
{
	struct iovec here = {to, n}, there = {(void *)from, n};
	long got = sr_sys_read_self(&here, &there, 1);

	return got > 0 ? (size_t)got : 0;
}

static void put_piece(uintptr_t addr, size_t length, void *copied, void *site)
{
	uint64_t piece[SR_PIECE_WORDS] = {
	    [SR_PIECE_ADDR] = addr, [SR_PIECE_LENGTH] = length, [SR_PIECE_COPY] = (uintptr_t)copied};
	uint64_t a[] = {sr_self.mapped_outputs, (uintptr_t)piece};

	sr_call(SR_CALL_mapped_output, a, site);
}

static void leave_rest(void *site)
{
	put_piece(0, 0, NULL, site);
}

/* In words of /proc/self/pagemap.  A page that the kernel took away again is in neither state: its content is in the file. */
#define PRESENT (1ull << 63 | 1ull << 62)
#define PAGES_AT_ONCE 512

/* Not on the stack, which is a signal handler's. */
struct room {
	uint64_t page[PAGES_AT_ONCE];
	char copy[PIECE];
};

/* How many pages from the first on are touched alike. */
static size_t run_of(const uint64_t *page, size_t n)
{
	size_t run = 1;

	while (run < n && !(page[run] & PRESENT) == !(page[0] & PRESENT))
		run++;
	return run;
}

/* Returns false if not all could be read. */
static bool put_run(uintptr_t at, uintptr_t end, struct room *room, void *site)
{
	for (size_t n; at < end; at += n) {
		n = end - at < PIECE ? end - at : PIECE;
		n = copy(room->copy, (const void *)at, n);
		if (!n) {
			/* It is protected from the program, or behind the file's end. */
			n = PAGE;
			continue;
		}
		if (atomic_fetch_add(&compared, n) > BYTES_MAX)
			return false;
		put_piece(at, n, room->copy, site);
	}
	return true;
}

/*
 * Pages into which peers write are left out: what they have written by now leaves the process as well, though the program has
 * not seen it, and a replay cannot know it.
 */
static bool put_own(uintptr_t at, uintptr_t end, struct room *room, void *site)
{
	for (uintptr_t stop; at < end; at = stop) {
		const bool exposed = sr_exposed_covers((void *)at, PAGE);

		for (stop = at + PAGE; stop < end && sr_exposed_covers((void *)stop, PAGE) == exposed; stop += PAGE)
			;
		if (!exposed && !put_run(at, stop, room, site))
			return false;
	}
	return true;
}

static bool put_touched(int pagemap, const struct mapping *m, struct room *room, void *site)
{
	const uint64_t *page = room->page;

	for (uintptr_t at = m->begin; at < m->end;) {
		size_t n = (m->end - at) / PAGE < PAGES_AT_ONCE ? (m->end - at) / PAGE : PAGES_AT_ONCE;
		const size_t bytes = n * sizeof(*page);

		if (sr_syscall(SYS_pread64, pagemap, SR_ARG(page), (long)bytes, (long)(at / PAGE * sizeof(*page)), 0, 0) !=
		    (long)bytes)
			return false;
		for (size_t i = 0, run; i < n; i += run) {
			run = run_of(page + i, n - i);
			if (page[i] & PRESENT && !put_own(at + i * PAGE, at + (i + run) * PAGE, room, site))
				return false;
		}
		at += n * PAGE;
	}
	return !sr_exposed_touches((void *)m->begin, m->end - m->begin);
}

/* While others run, they may store there. */
static bool is_still(const struct mapping *m)
{
	return !m->shared && (!sr_threaded || sr_serial);
}

static bool put_mapping(const struct mapping *m, void *site)
{
	long pagemap = sr_syscall(SYS_openat, AT_FDCWD, SR_ARG("/proc/self/pagemap"), O_RDONLY | O_CLOEXEC, 0, 0, 0);
	struct room *room = sr_alloc(sizeof(*room));
	bool all = pagemap >= 0 && room && put_touched((int)pagemap, m, room, site);

	sr_free(room);
	if (pagemap >= 0)
		sr_sys_close((int)pagemap);
	return all;
}

static void record(const struct mapping *m, void *site)
{
	if (m->stores && (!is_still(m) || !put_mapping(m, site)))
		leave_rest(site);
}

/* The recording knows what there is to compare now; the next comparison may come without a call in between. */
static void replay(void *site)
{
	uint64_t none[SR_PIECE_WORDS], a[] = {sr_self.mapped_outputs, (uintptr_t)none};

	while (!sr_engine_passes(&sr_self) && sr_engine->comes_next(&sr_self, SR_CALL_mapped_output, a))
		put_piece(0, 0, NULL, site);
}

/* All pieces are in the recording: those of a replay are taken from there. */
static void end_comparison(void *site)
{
	if (sr_engine->replays)
		replay(site);
	else
		sr_engine_passes(&sr_self);
}

static bool compare(uintptr_t begin, uintptr_t end, void *site)
{
	struct mapping part;
	size_t at = 0;
	bool any = false;

	while (next_part(begin, end, &at, &part)) {
		/* Not where there is none: whether other threads have any is by chance. */
		sr_self.mapped_outputs += !any;
		any = true;
		if (!sr_engine->replays)
			record(&part, site);
	}
	if (any)
		end_comparison(site);
	return any;
}

/* ------------------------------------------------------------------ when */

void sr_mapped_output_synced(void *addr, size_t size, void *site)
{
	if (mapped.n && sr_engine_is_active() && size <= SYNCED_MAX)
		compare((uintptr_t)addr, (uintptr_t)addr + sr_page_up(size), site);
}

static void mapping_ends(void *addr, size_t size)
{
	const uintptr_t begin = (uintptr_t)addr, end = begin + sr_page_up(size);

	if (mapped.n && sr_engine_is_active() && compare(begin, end, NULL))
		forget(begin, end);
}

void sr_mapped_output_moves(void *addr, size_t size, size_t new_size, void *site)
{
	const uintptr_t begin = (uintptr_t)addr;

	if (mapped.n && sr_engine_is_active() && new_size < size)
		compare(begin + sr_page_up(new_size), begin + sr_page_up(size), site);
}

void sr_mapped_output_moved(void *addr, void *to, size_t new_size)
{
	const uintptr_t begin = (uintptr_t)addr;

	sr_lock(&mapped.lock);
	for (size_t i = 0; i < mapped.n; i++) {
		struct mapping *m = &mapped.list[i];

		if (m->begin != begin)
			continue;
		m->begin = (uintptr_t)to;
		m->end = m->begin + sr_page_up(new_size);
	}
	sr_unlock(&mapped.lock);
}

void sr_mapped_outputs_compare(void *site)
{
	if (!sr_engine || !sr_engine_is_active())
		return;
	/* Which mappings of other threads a forked child has is by chance; its recording knows. */
	if (!compare(0, UINTPTR_MAX, site)) {
		sr_self.mapped_outputs++;
		end_comparison(site);
	}
	if (mapped.is_full && !sr_engine->replays)
		leave_rest(site);
	sr_output_is_compared(SR_UNCOMPARED_KILLED);
}

void sr_mapped_outputs_start(void)
{
	sr_heap_on_mapping_end(mapping_ends);
}
