/* SPDX-License-Identifier: BSD-2-Clause */
/* pages.c: the table of exposed pages, the lock, and the changes of state. */
#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/mappings.h"
#include "shim/exposed/page.h"

#define CHUNK_PAGES (CHUNK_BYTES / PAGE)

#define CHUNKS      ((1ul << 47) / CHUNK_BYTES)

/* A megabyte, which is not the library's own: see tests/unit/shim/image.py. */
struct page *_Atomic *page_chunks;

uintptr_t open_pages[OPEN_ALL];
uint32_t open_n, pass_through_n;
_Atomic uint32_t anything_open;
struct sr_exposed_counts counts;
struct sr_exposed_hooks hooks;
uint32_t holds;
__thread struct exposed_thread exposed_self SR_INITIAL_EXEC;

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
			bool exposed = page_chunks[i][n].state != PAGE_NONE;

			if (exposed && !begin)
				begin = base + n * PAGE;
			if (exposed && n < CHUNK_PAGES - 1)
				continue;
			if (begin)
				what(begin, base + (n + exposed) * PAGE);
			begin = 0;
		}
	}
}

/* ------------------------------------------------------------------- lock */

/* Not lock.h's: that one has a single-threaded mode, and this must hold against a signal. */
_Atomic uint32_t exposed_lock_state;

void exposed_lock(uint64_t *mask)
{
	const uint64_t all = BLOCKED;
	uint32_t free = 0;

	if (mask)
		sr_syscall(SYS_rt_sigprocmask, SIG_SETMASK, SR_ARG(&all), SR_ARG(mask), sizeof(all),
			   0, 0);
	/* Before it is ours: a tick in between would wait for this very thread. */
	exposed_self.busy = true;
	if (!atomic_compare_exchange_strong_explicit(&exposed_lock_state, &free, 1, memory_order_acquire,
						     memory_order_relaxed))
		while (atomic_exchange_explicit(&exposed_lock_state, 2, memory_order_acquire))
			sr_sys_futex((uint32_t *)&exposed_lock_state, FUTEX_WAIT_PRIVATE, 2, NULL);
}

NO_VECTORS void exposed_wake(void)
{
	sr_sys_futex((uint32_t *)&exposed_lock_state, FUTEX_WAKE_PRIVATE, 1, NULL);
}

NO_VECTORS void exposed_unlock(const uint64_t *mask)
{
	exposed_release();
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

	exposed_self.epoch = (uint64_t)(atomic_fetch_add(&threads, 1) + 1) << 32 | 1;
}

void thread_epoch_ends(void)
{
	uint64_t now = thread_epoch();

	/* Its lower half may begin anew. */
	exposed_self.epoch = (now & ~0xffffffffull) | (uint32_t)(now + 1);
}

bool is_mine(const struct page *p)
{
	return p->owner == thread_id();
}

bool is_snapshot(const struct page *p)
{
	return p->state == PAGE_SNAPSHOT || p->state == PAGE_KEPT;
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
		page_protect(oldest);
	else if (open_n == OPEN_ALL)
		page_protect(open_pages[0]);
}

static void note_open(uintptr_t user)
{
	make_room();
	page_at(user)->owner = thread_id();
	open_pages[open_n] = user;
	set_open_n(open_n + 1);
	if (!exposed_self.silent)
		tick_arm();
}

/* In the order of their opening: the oldest is the one to go. */
static void forget_open(uintptr_t user)
{
	uint32_t i = 0;

	while (i < open_n && open_pages[i] != user)
		i++;
	if (i == open_n)
		return;
	memmove(&open_pages[i], &open_pages[i + 1], (open_n - i - 1) * sizeof(*open_pages));
	set_open_n(open_n - 1);
}

void page_show_snapshot(uintptr_t user)
{
	struct page *p = page_at(user);

	if (map_protect(user, PROT_READ))
		return; /* the load comes again */
	p->state = PAGE_SNAPSHOT;
	note_open(user);
	counts.snapshots++;
}

static void take_back(uintptr_t user, struct page *p)
{
	map_take_back(user);
	pass_through_n--;
	p->state = PAGE_KEPT_PASS_THROUGH;
	if (hooks.was_pass_through)
		hooks.was_pass_through(user, backing_of(p, user));
}

static void keep_snapshots(uintptr_t user)
{
	map_protect(user, PROT_NONE);
	page_at(user)->state = PAGE_KEPT;
}

void page_keep(uintptr_t user)
{
	struct page *p = page_at(user);

	if (is_mine(p) || p->silent) {
		page_protect(user);
	} else if (p->state == PAGE_PASS_THROUGH) {
		take_back(user, p);
	} else if (p->state == PAGE_SNAPSHOT) {
		keep_snapshots(user);
	}
}

void page_protect(uintptr_t user)
{
	static char now[PAGE];
	struct page *p = page_at(user);

	forget_open(user);
	if (p->state == PAGE_PASS_THROUGH || p->state == PAGE_KEPT_PASS_THROUGH) {
		if (p->state == PAGE_PASS_THROUGH)
			take_back(user, p);
		p->state = PAGE_PROTECTED;
		/* What the program stored is in there as well, and cannot be told apart. */
		if (!p->silent) {
			if (!snapshot(user, now))
				counts.unstable++;
			record_difference(user, now, PAGE, SR_EXPOSED_ASYNC);
			p->known = true;
		}
		p->silent = false;
	} else {
		if (p->state != PAGE_KEPT)
			map_protect(user, PROT_NONE);
		p->state = PAGE_PROTECTED;
	}
	p->loads = 0;
}

void protect_mine(void)
{
	for (uint32_t i = open_n; i--;)
		if (is_mine(page_at(open_pages[i])))
			page_protect(open_pages[i]);
}

/*
 * They may be looked at by this thread as well, without a fault: then not as they were
 * before.
 */
void keep_changed(void)
{
	for (uint32_t i = open_n; i--;) {
		uintptr_t user = open_pages[i];
		const struct page *p = page_at(user);

		if (p->state == PAGE_SNAPSHOT && !is_as(shadow_of(user), backing_of(p, user), PAGE))
			keep_snapshots(user);
	}
}

void protect_pass_through(void)
{
	for (uint32_t i = open_n; i--;) {
		const struct page *p = page_at(open_pages[i]);

		if (p->state == PAGE_PASS_THROUGH || (p->state == PAGE_KEPT_PASS_THROUGH && is_mine(p)))
			page_keep(open_pages[i]);
	}
}

static void protect_snapshots(void)
{
	for (uint32_t i = open_n; i--;) {
		const struct page *p = page_at(open_pages[i]);

		if (p->state == PAGE_SNAPSHOT || (p->state == PAGE_KEPT && is_mine(p)))
			page_keep(open_pages[i]);
	}
}

void keep_all(void)
{
	for (uint32_t i = open_n; i--;)
		page_keep(open_pages[i]);
}

bool page_give(uintptr_t user)
{
	struct page *p = page_at(user);

	if (map_give(user))
		return false;
	p->state = PAGE_PASS_THROUGH;
	pass_through_n++;
	if (hooks.went_pass_through)
		hooks.went_pass_through(user, backing_of(p, user));
	return true;
}

/*
 * Loads from a live page are not seen, so no page may be frozen meanwhile: it
 * could show what is older than what was read there.
 */
bool page_pass_through(uintptr_t user)
{
	if (holds || page_at(user)->aliases)
		return false; /* the store comes again */
	protect_snapshots();
	if (!page_give(user))
		return false;
	note_open(user);
	counts.pass_throughs++;
	return true;
}

void page_renew_snapshot(uintptr_t user)
{
	if (!map_protect(user, PROT_READ))
		page_at(user)->state = PAGE_SNAPSHOT;
}

bool page_reopen(uintptr_t user)
{
	if (holds || page_at(user)->aliases)
		return false;
	protect_snapshots();
	return page_give(user);
}

/* Not the program's doing: what it learns from there, it has from the call's results. */
void page_open_silently(uintptr_t user)
{
	struct page *p = page_at(user);

	if (p->state != PAGE_PROTECTED)
		page_protect(user);
	if (p->aliases || !page_give(user))
		return;
	p->silent = true;
	note_open(user);
}
