/* SPDX-License-Identifier: BSD-2-Clause */
/* pages.c: the table of window pages, the lock, and the changes of state. */
#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include "logd/base/rawsys.h"
#include "shim/exposed/mappings.h"
#include "shim/exposed/page.h"

#define CHUNK_PAGES (CHUNK_BYTES / PAGE)

#define CHUNKS      ((1ul << 47) / CHUNK_BYTES)

/* A megabyte, which is not the library's own: see tests/shim/image.py. */
struct page *_Atomic *page_chunks;

uintptr_t open_pages[OPEN_ALL];
uint32_t open_n, live_n;
_Atomic uint32_t anything_open;
struct sr_window_counts counts;
struct sr_window_hooks hooks;
uint32_t holds;
__thread struct window_thread window_self __attribute__((tls_model("initial-exec")));

int page_table_init(void)
{
	void *p = sr_sys_mmap(NULL, CHUNKS * sizeof(*page_chunks), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (sr_sys_is_error(p))
		return -ENOMEM;
	page_chunks = p;
	return 0;
}

int page_table_reach(uintptr_t begin, uintptr_t end)
{
	for (uintptr_t i = begin / CHUNK_BYTES; i <= (end - 1) / CHUNK_BYTES; i++) {
		struct page *chunk;

		if (page_chunks[i])
			continue;
		chunk = sr_sys_mmap(NULL, CHUNK_PAGES * sizeof(*chunk), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (sr_sys_is_error(chunk))
			return -ENOMEM;
		atomic_store_explicit(&page_chunks[i], chunk, memory_order_release);
	}
	return 0;
}

void page_table_walk(void (*what)(uintptr_t begin, uintptr_t end))
{
	uintptr_t begin = 0;

	for (uintptr_t i = 0; page_chunks && i < CHUNKS; i++) {
		uintptr_t base = i * CHUNK_BYTES;

		for (size_t n = 0; page_chunks[i] && n < CHUNK_PAGES; n++) {
			bool window = page_chunks[i][n].state != PAGE_NONE;

			if (window && !begin)
				begin = base + n * PAGE;
			if (window && n < CHUNK_PAGES - 1)
				continue;
			if (begin)
				what(begin, base + (n + window) * PAGE);
			begin = 0;
		}
	}
}

/* ------------------------------------------------------------------- lock */

/* Not lock.h's: that one has a single-threaded mode, and this must hold against a signal. */
_Atomic uint32_t window_lock_state;

void window_lock(uint64_t *mask)
{
	const uint64_t all = BLOCKED;
	uint32_t free = 0;

	if (mask)
		sr_syscall(SYS_rt_sigprocmask, SIG_SETMASK, SR_ARG(&all), SR_ARG(mask), sizeof(all),
			   0, 0);
	/* Before it is ours: a tick in between would wait for this very thread. */
	window_self.busy = true;
	if (!atomic_compare_exchange_strong_explicit(&window_lock_state, &free, 1, memory_order_acquire,
						     memory_order_relaxed))
		while (atomic_exchange_explicit(&window_lock_state, 2, memory_order_acquire))
			sr_sys_futex((uint32_t *)&window_lock_state, FUTEX_WAIT_PRIVATE, 2, NULL);
}

NO_VECTORS void window_wake(void)
{
	sr_sys_futex((uint32_t *)&window_lock_state, FUTEX_WAKE_PRIVATE, 1, NULL);
}

NO_VECTORS void window_unlock(const uint64_t *mask)
{
	window_release();
	if (mask)
		sr_syscall(SYS_rt_sigprocmask, SIG_SETMASK, SR_ARG(mask), 0, sizeof(*mask), 0, 0);
}

/* ----------------------------------------------------------------- states */

static void set_open_n(uint32_t n)
{
	open_n = n;
	atomic_store_explicit(&anything_open, n, memory_order_release);
}

NO_VECTORS void thread_epoch_begins(void)
{
	static _Atomic uint32_t threads;

	window_self.epoch = (uint64_t)(atomic_fetch_add(&threads, 1) + 1) << 32 | 1;
}

void thread_epoch_ends(void)
{
	uint64_t now = thread_epoch();

	/* Its lower half may begin anew. */
	window_self.epoch = (now & ~0xffffffffull) | (uint32_t)(now + 1);
}

bool is_mine(const struct page *p)
{
	return p->owner == thread_id();
}

bool is_snapshot(const struct page *p)
{
	return p->state == PAGE_FROZEN || p->state == PAGE_KEPT;
}

/* Of this thread's, the oldest is the one to go. */
static void make_room(void)
{
	uintptr_t oldest = 0;
	uint32_t n = 0;

	for (uint32_t i = open_n; i--;)
		if (is_mine(page_at(open_pages[i]))) {
			oldest = open_pages[i];
			n++;
		}
	if (n >= OPEN_MAX)
		page_close(oldest);
	else if (open_n == OPEN_ALL)
		page_close(open_pages[0]);
}

static void note_open(uintptr_t view)
{
	make_room();
	page_at(view)->owner = thread_id();
	open_pages[open_n] = view;
	set_open_n(open_n + 1);
	if (!window_self.silent)
		tick_arm();
}

/* In the order of their opening: the oldest is the one to go. */
static void forget_open(uintptr_t view)
{
	uint32_t i = 0;

	while (i < open_n && open_pages[i] != view)
		i++;
	if (i == open_n)
		return;
	memmove(&open_pages[i], &open_pages[i + 1], (open_n - i - 1) * sizeof(*open_pages));
	set_open_n(open_n - 1);
}

void page_freeze(uintptr_t view)
{
	struct page *p = page_at(view);

	if (map_protect(view, PROT_READ))
		return; /* the load comes again */
	p->state = PAGE_FROZEN;
	note_open(view);
	counts.freezes++;
}

static void take_back(uintptr_t view, struct page *p)
{
	map_take_back(view);
	live_n--;
	p->state = PAGE_KEPT_LIVE;
	if (hooks.was_live)
		hooks.was_live(view, landing_of(p, view));
}

static void keep_frozen(uintptr_t view)
{
	map_protect(view, PROT_NONE);
	page_at(view)->state = PAGE_KEPT;
}

void page_keep(uintptr_t view)
{
	struct page *p = page_at(view);

	if (is_mine(p) || p->silent) {
		page_close(view);
	} else if (p->state == PAGE_LIVE) {
		take_back(view, p);
	} else if (p->state == PAGE_FROZEN) {
		keep_frozen(view);
	}
}

void page_close(uintptr_t view)
{
	static char now[PAGE];
	struct page *p = page_at(view);

	forget_open(view);
	if (p->state == PAGE_LIVE || p->state == PAGE_KEPT_LIVE) {
		if (p->state == PAGE_LIVE)
			take_back(view, p);
		p->state = PAGE_CLOSED;
		/* What the program stored is in there as well, and cannot be told apart. */
		if (!p->silent) {
			if (!snapshot(view, now))
				counts.unstable++;
			learn(view, now, PAGE, SR_WINDOW_ASYNC);
			p->known = true;
		}
		p->silent = false;
	} else {
		if (p->state != PAGE_KEPT)
			map_protect(view, PROT_NONE);
		p->state = PAGE_CLOSED;
	}
	p->loads = 0;
}

void close_mine(void)
{
	for (uint32_t i = open_n; i--;)
		if (is_mine(page_at(open_pages[i])))
			page_close(open_pages[i]);
}

/*
 * They may be looked at by this thread as well, without a fault: then not as they were
 * before.
 */
void keep_changed(void)
{
	for (uint32_t i = open_n; i--;) {
		uintptr_t view = open_pages[i];
		const struct page *p = page_at(view);

		if (p->state == PAGE_FROZEN && !is_as(shadow_of(view), landing_of(p, view), PAGE))
			keep_frozen(view);
	}
}

void close_live(void)
{
	for (uint32_t i = open_n; i--;) {
		const struct page *p = page_at(open_pages[i]);

		if (p->state == PAGE_LIVE || (p->state == PAGE_KEPT_LIVE && is_mine(p)))
			page_keep(open_pages[i]);
	}
}

static void close_frozen(void)
{
	for (uint32_t i = open_n; i--;) {
		const struct page *p = page_at(open_pages[i]);

		if (p->state == PAGE_FROZEN || (p->state == PAGE_KEPT && is_mine(p)))
			page_keep(open_pages[i]);
	}
}

void keep_all(void)
{
	for (uint32_t i = open_n; i--;)
		page_keep(open_pages[i]);
}

bool page_give(uintptr_t view)
{
	struct page *p = page_at(view);

	if (map_give(view))
		return false;
	p->state = PAGE_LIVE;
	live_n++;
	if (hooks.went_live)
		hooks.went_live(view, landing_of(p, view));
	return true;
}

/*
 * Loads from a live page are not seen, so no page may be frozen meanwhile: it
 * could show what is older than what was read there.
 */
bool page_go_live(uintptr_t view)
{
	if (holds || page_at(view)->aliases)
		return false; /* the store comes again */
	close_frozen();
	if (!page_give(view))
		return false;
	note_open(view);
	counts.lives++;
	return true;
}

void page_refreeze(uintptr_t view)
{
	if (!map_protect(view, PROT_READ))
		page_at(view)->state = PAGE_FROZEN;
}

bool page_reopen(uintptr_t view)
{
	if (holds || page_at(view)->aliases)
		return false;
	close_frozen();
	return page_give(view);
}

/* Not the program's doing: what it learns from there, it has from the call's results. */
void page_open_silently(uintptr_t view)
{
	struct page *p = page_at(view);

	if (p->state != PAGE_CLOSED)
		page_close(view);
	if (p->aliases || !page_give(view))
		return;
	p->silent = true;
	note_open(view);
}
