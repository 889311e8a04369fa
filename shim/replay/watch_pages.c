/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/watch_pages.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"
#include "shim/memory/heap.h"
#include "shim/signals/stack.h"
#include "shim/threads/main_stack.h"
#include "shim/threads/stacks.h"
#include "shim/verbs/objects.h"

/* A page this near to the stack pointer may be the stack's: the kernel puts signals' frames there. */
#define STACK_MAX (16ul << 20)

/* So many pages are tried by one system call, at most. */
#define TRIED 64

static struct {
	const struct sr_watch_range *ranges; /* ascending */
	uint64_t ranges_n;
	struct sr_watched *pages; /* ascending */
	uint64_t n, closed_n;
	uint64_t changes; /* of registrations, that are known here */
	bool is_settled;  /* no registration has changed since the last call */
	struct sr_watched **listed;
	uint64_t listed_n;
	struct sr_lock lock;
} table;

void sr_watch_lock(void)
{
	sr_lock(&table.lock);
}

void sr_watch_unlock(void)
{
	sr_unlock(&table.lock);
}

/* ---------------------------------------------------------------------- the table */

void *sr_watch_map(size_t bytes)
{
	void *p = sr_sys_mmap(sr_heap_place_mapping(bytes), bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return sr_sys_is_error(p) ? NULL : p;
}

static uint64_t count_pages(void)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < table.ranges_n; i++)
		n += (table.ranges[i].end - 1) / SR_WATCH_PAGE - table.ranges[i].begin / SR_WATCH_PAGE + 1;
	return n;
}

static void add_page(uint64_t address, char *copies, char *older, const struct sr_watch_range *r)
{
	const uint64_t end = r->end - address < SR_WATCH_PAGE ? r->end - address : SR_WATCH_PAGE;
	struct sr_watched *p = table.n ? &table.pages[table.n - 1] : NULL;

	if (!p || p->address != address) {
		p = &table.pages[table.n];
		*p = (struct sr_watched){.address = address,
					 .copy = copies + table.n * SR_WATCH_PAGE,
					 .older = older + table.n * SR_WATCH_PAGE,
					 .patience = 1,
					 .first = (uint16_t)(r->begin > address ? r->begin - address : 0)};
		table.n++;
	}
	p->end = (uint16_t)end;
}

bool sr_watch_pages_start(const struct sr_watch_range *ranges, uint64_t n)
{
	uint64_t room;
	char *copies, *older;

	table.ranges = ranges;
	table.ranges_n = n;
	table.changes = UINT64_MAX;
	room = count_pages();
	copies = sr_watch_map(room * SR_WATCH_PAGE);
	older = sr_watch_map(room * SR_WATCH_PAGE);
	table.pages = sr_watch_map(room * sizeof(*table.pages));
	table.listed = sr_watch_map(room * sizeof(struct sr_watched *));
	if (!table.pages || !table.listed || !copies || !older)
		return false;
	for (uint64_t i = 0; i < n; i++)
		for (uint64_t page = ranges[i].begin / SR_WATCH_PAGE; page <= (ranges[i].end - 1) / SR_WATCH_PAGE; page++)
			add_page(page * SR_WATCH_PAGE, copies, older, &ranges[i]);
	return true;
}

/* The first page that is not before this one. */
static uint64_t first_from(uint64_t page)
{
	uint64_t low = 0, high = table.n;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (table.pages[middle].address < page)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static uint64_t page_of(uint64_t address)
{
	return address & ~(uint64_t)(SR_WATCH_PAGE - 1);
}

struct sr_watched *sr_watch_page_at(uintptr_t address)
{
	const uint64_t page = page_of(address), at = first_from(page);

	return at < table.n && table.pages[at].address == page ? &table.pages[at] : NULL;
}

bool sr_watch_has(uint64_t begin, uint64_t end)
{
	uint64_t low = 0, high = table.ranges_n;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (table.ranges[middle].end <= begin)
			low = middle + 1;
		else
			high = middle;
	}
	return low < table.ranges_n && table.ranges[low].begin < end;
}

const char *sr_watch_bytes(const struct sr_watched *p)
{
	return sr_exposed_backing((void *)p->address);
}

void sr_watch_list(struct sr_watched *p)
{
	if (!p->is_listed)
		table.listed[table.listed_n++] = p;
	p->is_listed = true;
	p->unchanged = 0;
}

bool sr_watch_any_listed(void)
{
	return table.listed_n;
}

/* ------------------------------------------------------------------- protection */

/* Neighbouring pages, which one system call protects. */
struct run {
	uint64_t first, end; /* in the table */
};

static int closed_protection(void)
{
	return sr_threaded ? PROT_READ : PROT_NONE;
}

static bool protect(uint64_t first, uint64_t end, int protection)
{
	const uint64_t begin = table.pages[first].address;

	return !sr_syscall(SYS_mprotect, (long)begin, (long)((end - first) * SR_WATCH_PAGE), protection, 0, 0, 0);
}

/* Of a range that cannot be protected as a whole some may be. */
static void set_run(const struct run *r, bool closed)
{
	const int protection = closed ? closed_protection() : PROT_READ | PROT_WRITE;
	const bool at_once = r->first < r->end && protect(r->first, r->end, protection);

	for (uint64_t i = r->first; i < r->end; i++) {
		struct sr_watched *p = &table.pages[i];

		if (at_once || protect(i, i + 1, protection))
			p->is_closed = closed;
		table.closed_n += closed && p->is_closed;
		table.closed_n -= !closed && !p->is_closed;
	}
}

static bool is_next(const struct run *r, uint64_t i)
{
	return r->first < r->end && i == r->end && table.pages[i].address == table.pages[i - 1].address + SR_WATCH_PAGE;
}

static void add_to_run(struct run *r, uint64_t i, bool closed)
{
	if (!is_next(r, i)) {
		set_run(r, closed);
		r->first = i;
	}
	r->end = i + 1;
}

static uint64_t index_of(const struct sr_watched *p)
{
	return (uint64_t)(p - table.pages);
}

void sr_watch_open(struct sr_watched *p)
{
	if (p->is_closed)
		set_run(&(struct run){index_of(p), index_of(p) + 1}, false);
}

void sr_watch_close(struct sr_watched *p)
{
	if (!p->is_closed)
		set_run(&(struct run){index_of(p), index_of(p) + 1}, true);
}

static void open_from_to(uint64_t first, uint64_t end)
{
	struct run r = {0};

	for (uint64_t i = first; i < end && table.closed_n; i++)
		if (table.pages[i].is_closed)
			add_to_run(&r, i, false);
	set_run(&r, false);
}

void sr_watch_open_all(void)
{
	if (!table.closed_n)
		return;
	open_from_to(0, table.n);
	for (uint64_t i = 0; i < table.n; i++)
		if (table.pages[i].may_close)
			sr_watch_list(&table.pages[i]);
}

/*
 * Without threads signals' frames come to this stack.  With threads a page that is closed can still be read, and faults of
 * the program's are handled on another stack; but what the C library keeps of a thread, and tells the kernel of, lies on its
 * stack.
 */
static bool is_stack(const struct sr_watched *p)
{
	const uintptr_t here = sr_signal_stack_of_program(&sr_self.signals.stack, (uintptr_t)__builtin_frame_address(0));

	if (sr_threaded)
		return sr_stack_is_placed((void *)p->address) || sr_is_on_main_stack(p->address);
	return here - p->address + STACK_MAX < 2 * STACK_MAX;
}

/* ----------------------------------------------------------------- registrations */

/* Can the program store to so many pages?  Some of the kernel's answers are shorter than asked. */
static bool are_writable(char *pages, uint64_t n)
{
	char bytes[TRIED];
	struct iovec here = {bytes, n}, there[TRIED];
	long pid = sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0);

	for (uint64_t i = 0; i < n; i++)
		there[i] = (struct iovec){pages + i * SR_WATCH_PAGE, 1};
	return sr_syscall(SYS_process_vm_readv, pid, SR_ARG(&here), 1, SR_ARG(there), (long)n, 0) == (long)n &&
	       sr_syscall(SYS_process_vm_writev, pid, SR_ARG(&here), 1, SR_ARG(there), (long)n, 0) == (long)n;
}

static bool may_be_tried(const struct sr_watched *p)
{
	return p->is_there && !p->is_exposed;
}

static void try_pages(uint64_t first, uint64_t end)
{
	const bool all = are_writable((char *)table.pages[first].address, end - first);

	for (uint64_t i = first; i < end; i++)
		table.pages[i].may_close = all || are_writable((char *)table.pages[i].address, 1);
}

/* Which pages are exposed is in the trace behind the call that registered them. */
static void settle(void)
{
	struct run r = {0};

	if (table.is_settled)
		return;
	for (uint64_t i = 0; i < table.n; i++) {
		struct sr_watched *p = &table.pages[i];

		p->is_exposed = p->is_there && sr_exposed_touches((void *)p->address, SR_WATCH_PAGE);
		p->may_close = false;
		if (!may_be_tried(p))
			continue;
		if (!is_next(&r, i) || r.end - r.first == TRIED) {
			if (r.first < r.end)
				try_pages(r.first, r.end);
			r.first = i;
		}
		r.end = i + 1;
	}
	if (r.first < r.end)
		try_pages(r.first, r.end);
	table.is_settled = true;
}

void sr_watch_find_pages(void)
{
	uint64_t changes = sr_mr_changes();

	if (changes == table.changes) {
		settle();
		return;
	}
	table.changes = changes;
	table.is_settled = false;
	open_from_to(0, table.n);
	for (uint64_t i = 0; i < table.n; i++) {
		struct sr_watched *p = &table.pages[i];

		p->is_there = sr_mr_has_page((void *)p->address, SR_WATCH_PAGE);
		p->may_close = p->is_exposed = false;
		p->has_copy &= p->is_there;
		if (p->is_there)
			sr_watch_list(p);
	}
}

void sr_watch_forget_pages(uint64_t begin, uint64_t end)
{
	const uint64_t first = first_from(page_of(begin)), last = first_from(end);

	open_from_to(first, last);
	for (uint64_t i = first; i < last; i++) {
		struct sr_watched *p = &table.pages[i];

		p->is_there = p->has_copy = p->has_older = p->may_close = p->is_exposed = false;
	}
}

/* ---------------------------------------------------------------------- comparison */

static bool is_changed(const struct sr_watched *p)
{
	return memcmp(sr_watch_bytes(p) + p->first, p->copy + p->first, (size_t)(p->end - p->first)) != 0;
}

static void compare(struct sr_watched *p, void (*changed)(const struct sr_watched *p, size_t begin, size_t end, void *argument), void *argument)
{
	const char *now = sr_watch_bytes(p);
	size_t begin, end;

	for (size_t i = p->first; i < p->end; i = end) {
		for (begin = i; begin < p->end && now[begin] == p->copy[begin]; begin++)
			;
		for (end = begin; end < p->end && now[end] != p->copy[end]; end++)
			p->copy[end] = now[end];
		if (end > begin)
			changed(p, begin, end, argument);
	}
}

void sr_watch_compare(void (*changed)(const struct sr_watched *p, size_t begin, size_t end, void *argument), void *argument)
{
	for (uint64_t i = 0; i < table.listed_n; i++) {
		struct sr_watched *p = table.listed[i];

		if (!p->has_copy || p->is_closed)
			continue;
		if (is_changed(p)) {
			compare(p, changed, argument);
			p->unchanged = 0;
		} else if (p->unchanged < SR_WATCH_PATIENCE) {
			p->unchanged++;
		}
	}
}

static void take_copy(struct sr_watched *p)
{
	if (!p->has_copy || is_changed(p))
		memcpy(p->copy + p->first, sr_watch_bytes(p) + p->first, (size_t)(p->end - p->first));
	p->has_copy = true;
}

/* With threads, a page that is stored to again and again is compared at each call instead. */
static bool is_to_be_closed(const struct sr_watched *p)
{
	return p->may_close && (!sr_threaded || p->unchanged + 1 >= p->patience) && !is_stack(p);
}

static bool stays_listed(const struct sr_watched *p)
{
	return p->is_there && !p->is_closed && (!p->is_exposed || sr_exposed_is_passed_through((void *)p->address));
}

void sr_watch_close_all(void)
{
	struct run r = {0};
	uint64_t kept = 0;

	for (uint64_t i = 0; i < table.listed_n; i++) {
		struct sr_watched *p = table.listed[i];

		p->faults = 0;
		p->stored_by = 0;
		if (p->is_there && !p->is_closed)
			take_copy(p);
		if (p->is_there && !p->is_closed && is_to_be_closed(p))
			add_to_run(&r, index_of(p), true);
	}
	set_run(&r, true);
	for (uint64_t i = 0; i < table.listed_n; i++) {
		struct sr_watched *p = table.listed[i];

		p->is_listed = stays_listed(p);
		if (p->is_listed)
			table.listed[kept++] = p;
	}
	table.listed_n = kept;
}
