/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/watch.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "logd/base/lock.h"
#include "logd/base/rawsys.h"
#include "shim/core/order.h"
#include "shim/exposed/exposed.h"
#include "shim/memory/heap.h"
#include "shim/replay/trial.h"
#include "shim/verbs/objects.h"

#define RECENT 256
/* A load among others that finds the same bytes again so often is one that waits. */
#define IN_VAIN 3

static struct {
	int fd;
	bool is_trial;
	struct sr_watch_range *ranges; /* ascending */
	uint64_t ranges_n;
	struct sr_watched *pages; /* ascending */
	uint64_t n, changes;
	bool is_settled; /* no registration has changed since the last call */
	struct sr_watched **open; /* that the program may store to unseen, or may have stored to */
	uint64_t open_n;
	struct recent {
		struct sr_watch_access a;
		uint64_t event, found; /* found: of a load, its first bytes */
		uint64_t calls;        /* that brought something, before */
		uint32_t in_vain;      /* so often since such a call it found them again */
		bool is_polled;
	} *recent; /* RECENT: reported, by hash */
	struct at {
		uint64_t pc, address;
	} *last; /* RECENT: of an instruction what it loaded last, by hash */
	uint64_t event;
	uint64_t calls; /* that brought something: no polls in vain, no clocks */
	struct sr_lock lock;
} watch = {.fd = -1};

static void *map(size_t bytes)
{
	void *p = sr_sys_mmap(sr_heap_place_mapping(bytes), bytes, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return sr_sys_is_error(p) ? NULL : p;
}

static bool read_at(void *p, size_t size, uint64_t offset)
{
	return sr_syscall(SYS_pread64, watch.fd, SR_ARG(p), (long)size, (long)offset, 0, 0) == (long)size;
}

static size_t whole_pages(size_t bytes)
{
	return (bytes + SR_WATCH_PAGE - 1) & ~(size_t)(SR_WATCH_PAGE - 1);
}

static uint64_t count_pages(void)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < watch.ranges_n; i++)
		n += (watch.ranges[i].end - 1) / SR_WATCH_PAGE - watch.ranges[i].begin / SR_WATCH_PAGE + 1;
	return n;
}

static void add_page(uint64_t address, char *copies, const struct sr_watch_range *r)
{
	const uint64_t end = r->end - address < SR_WATCH_PAGE ? r->end - address : SR_WATCH_PAGE;
	struct sr_watched *p = watch.n ? &watch.pages[watch.n - 1] : NULL;

	if (!p || p->address != address) {
		p = &watch.pages[watch.n];
		*p = (struct sr_watched){.address = address,
					 .copy = copies + watch.n * SR_WATCH_PAGE,
					 .first = (uint16_t)(r->begin > address ? r->begin - address : 0)};
		watch.n++;
	}
	p->end = (uint16_t)end;
}

static bool make_pages(void)
{
	uint64_t room = count_pages();
	char *copies = map(room * SR_WATCH_PAGE);

	watch.pages = map(whole_pages(room * sizeof(*watch.pages)));
	watch.open = map(whole_pages(room * sizeof(struct sr_watched *)));
	if (!watch.pages || !watch.open || !copies)
		return false;
	for (uint64_t i = 0; i < watch.ranges_n; i++)
		for (uint64_t page = watch.ranges[i].begin / SR_WATCH_PAGE;
		     page <= (watch.ranges[i].end - 1) / SR_WATCH_PAGE; page++)
			add_page(page * SR_WATCH_PAGE, copies, &watch.ranges[i]);
	return true;
}

/* Which pages are exposed is in the trace behind the call that registered them. */
static void settle(void)
{
	for (uint64_t i = 0; i < watch.n && !watch.is_settled; i++) {
		struct sr_watched *p = &watch.pages[i];

		p->is_exposed = sr_exposed_touches((void *)p->address, SR_WATCH_PAGE);
		p->may_close = !p->is_exposed && sr_watch_may_close(p);
	}
	watch.is_settled = true;
}

static void note_open(struct sr_watched *p)
{
	if (!p->is_open)
		watch.open[watch.open_n++] = p;
	p->is_open = true;
}

/* Pages come and go with the memory regions that they are in. */
static void find_pages(void)
{
	uint64_t changes = sr_mr_changes();

	if (changes == watch.changes) {
		settle();
		return;
	}
	watch.changes = changes;
	watch.is_settled = false;
	for (uint64_t i = 0; i < watch.n; i++) {
		struct sr_watched *p = &watch.pages[i];

		sr_watch_open(p);
		p->is_there = sr_mr_has_page((void *)p->address, SR_WATCH_PAGE);
		p->may_close = p->is_exposed = false;
		p->has_copy &= p->is_there;
		note_open(p);
	}
}

/* The first page that is not before this one. */
static uint64_t first_from(uint64_t page)
{
	uint64_t low = 0, high = watch.n;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (watch.pages[middle].address < page)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static struct sr_watched *page_at(uintptr_t address)
{
	const uint64_t page = address & ~(uint64_t)(SR_WATCH_PAGE - 1), at = first_from(page);

	return at < watch.n && watch.pages[at].address == page ? &watch.pages[at] : NULL;
}

/* The program unmaps memory that is still registered, or maps something else there: it can be read no more. */
static void forget_pages(void *address, size_t size)
{
	const uint64_t begin = (uintptr_t)address, end = begin + size;

	if (watch.fd < 0)
		return;
	sr_lock(&watch.lock);
	for (uint64_t i = first_from(begin & ~(uint64_t)(SR_WATCH_PAGE - 1)); i < watch.n && watch.pages[i].address < end; i++) {
		struct sr_watched *p = &watch.pages[i];

		sr_watch_open(p);
		p->is_there = p->has_copy = p->may_close = p->is_exposed = false;
		note_open(p);
	}
	sr_unlock(&watch.lock);
}

/* ------------------------------------------------------------------ reports */

static const char *bytes_of(const struct sr_watched *p)
{
	return sr_exposed_backing((void *)p->address);
}

static void put_report(const struct sr_watch_access *a)
{
	if (watch.is_trial && !(a->kind == SR_WATCH_POLL && sr_trial_asks(a)))
		return;
	sr_syscall(SYS_write, watch.fd, SR_ARG(a), sizeof(*a), 0, 0, 0);
}

static bool is_watched(uint64_t begin, uint64_t end)
{
	uint64_t low = 0, high = watch.ranges_n;

	while (low < high) {
		uint64_t middle = (low + high) / 2;

		if (watch.ranges[middle].end <= begin)
			low = middle + 1;
		else
			high = middle;
	}
	return low < watch.ranges_n && watch.ranges[low].begin < end;
}

static bool is_same(const struct sr_watch_access *a, const struct sr_watch_access *b)
{
	return a->pc == b->pc && a->address == b->address && a->length == b->length && a->kind == b->kind && a->thread == b->thread &&
	       a->caller == b->caller;
}

static void report_poll(struct recent *r, const struct sr_watch_access *a)
{
	struct sr_watch_access poll = *a;

	if (a->kind != SR_WATCH_LOAD || r->is_polled)
		return;
	poll.kind = SR_WATCH_POLL;
	put_report(&poll);
	r->is_polled = true;
	if (sr_trial_asks(a))
		sr_trial_end();
}

static uint64_t hash(uint64_t x)
{
	return x * 0x9e3779b97f4a7c15ull >> 56;
}

/* The instruction has loaded nothing else since it last loaded this. */
static bool is_again(const struct sr_watch_access *a)
{
	struct at *last = &watch.last[hash(a->pc)];
	const bool is = last->pc == a->pc && last->address == a->address;

	*last = (struct at){a->pc, a->address};
	return is;
}

static uint64_t bytes_at(const struct sr_watched *p, const struct sr_watch_access *a)
{
	const size_t at = a->address % SR_WATCH_PAGE, n = SR_WATCH_PAGE - at;
	uint64_t word = 0;

	memcpy(&word, bytes_of(p) + at, a->length < sizeof(word) && a->length < n ? a->length : n < sizeof(word) ? n : sizeof(word));
	return word;
}

/*
 * Is this load done again, before the next call that brings something, because the program waits for the bytes to change?
 * (It may sleep meanwhile, and libraries poll their completion queues.)  If the instruction has loaded others in between, it may look at several
 * flags in turn, or at the next message in the same place.
 */
static bool is_poll(const struct sr_watched *p, struct recent *r, const struct sr_watch_access *a, bool same)
{
	const bool again = is_again(a), is_repeated = same && r->calls == watch.calls && (r->a.sn != a->sn || r->a.fault != a->fault);
	const uint64_t found = bytes_at(p, a);

	r->in_vain = is_repeated && r->found == found ? r->in_vain + 1 : 0;
	r->found = found;
	r->calls = watch.calls;
	return is_repeated && (again || r->in_vain >= IN_VAIN);
}

/* Was the same access reported since the last event?  Then nothing has come between the two. */
static bool is_recent(const struct sr_watched *p, const struct sr_watch_access *a)
{
	struct recent *r = &watch.recent[hash(a->pc * 31 + a->address)];
	const bool same = is_same(&r->a, a);

	if (a->kind == SR_WATCH_LOAD && is_poll(p, r, a, same))
		report_poll(r, a);
	if (same && r->event == watch.event) {
		r->a.fault = a->fault;
		return true;
	}
	r->a = *a;
	r->event = watch.event;
	r->is_polled = same && r->is_polled;
	return false;
}

/* A comparison is to find what nobody has seen: what this instruction stored is known. */
static void take_store(struct sr_watched *p, const struct sr_watch_access *a)
{
	size_t at = a->address % SR_WATCH_PAGE, n = SR_WATCH_PAGE - at;

	p->stored_by = a->pc;
	note_open(p); /* its page may be passed through from now on */
	if (p->has_copy && !p->is_closed)
		memcpy(p->copy + at, bytes_of(p) + at, a->length < n ? a->length : n);
}

/* An access was seen: it is reported if it is to a watched range, once between two events. */
static void take_access(const struct sr_watch_access *a)
{
	struct sr_watched *p = page_at(a->address);

	if (!p || !is_watched(a->address, a->address + a->length))
		return;
	sr_lock(&watch.lock);
	if (!is_recent(p, a))
		put_report(a);
	if (a->kind == SR_WATCH_STORE)
		take_store(p, a);
	sr_unlock(&watch.lock);
}

/* A page is reported once: what is not seen of it later changes nothing. */
static void take_unseen(const struct sr_watch_access *from)
{
	struct sr_watched *p = page_at(from->address);

	if (!p)
		return;
	sr_lock(&watch.lock);
	if (!p->is_unseen)
		put_report(from);
	p->is_unseen = true;
	sr_unlock(&watch.lock);
}

bool sr_watch_start(int fd)
{
	struct sr_watch_head head;
	size_t bytes;

	if (sr_syscall(SYS_pread64, fd, SR_ARG(&head), sizeof(head), 0, 0, 0) != sizeof(head) || head.ranges > UINT32_MAX)
		return false;
	/* Then only stacks are asked for. */
	if (!head.ranges)
		return true;
	watch.fd = fd;
	watch.is_trial = head.trial.length;
	if (head.trial.length <= SR_WATCH_TRIAL_MOST)
		sr_trial_start(&head.trial);
	bytes = head.ranges * sizeof(*watch.ranges);
	watch.ranges = map(whole_pages(bytes));
	watch.recent = map(whole_pages(RECENT * sizeof(*watch.recent)));
	watch.last = map(whole_pages(RECENT * sizeof(*watch.last)));
	if (!watch.ranges || !watch.recent || !watch.last || !read_at(watch.ranges, bytes, sizeof(head)))
		return false;
	watch.ranges_n = head.ranges;
	watch.changes = UINT64_MAX;
	sr_heap_on_mapping_end(forget_pages);
	sr_watch_access_start(&(struct sr_watch_access_user){.take = take_access, .unseen = take_unseen, .opened = note_open, .page_at = page_at});
	return make_pages();
}

/* ---------------------------------------------------------------- comparison */

static void report_change(const struct sr_thread *t, uint32_t fault, const struct sr_watched *p, size_t begin,
			  size_t end)
{
	const struct sr_watch_access a = {.sn = t->sn,
					  .address = p->address + begin,
					  .pc = p->stored_by,
					  .thread = t->number,
					  .length = (uint32_t)(end - begin),
					  .fault = fault,
					  .kind = SR_WATCH_CHANGED};

	if (is_watched(a.address, a.address + a.length))
		put_report(&a);
}

/* Each run of bytes that differ is a store. */
static void compare(const struct sr_thread *t, uint32_t fault, struct sr_watched *p)
{
	const char *now = bytes_of(p);
	size_t begin, end;

	for (size_t i = p->first; i < p->end; i = end) {
		for (begin = i; begin < p->end && now[begin] == p->copy[begin]; begin++)
			;
		for (end = begin; end < p->end && now[end] != p->copy[end]; end++)
			p->copy[end] = now[end];
		if (end > begin)
			report_change(t, fault, p, begin, end);
	}
}

static bool is_changed(const struct sr_watched *p)
{
	return memcmp(bytes_of(p) + p->first, p->copy + p->first, (size_t)(p->end - p->first)) != 0;
}

static void compare_all(const struct sr_thread *t, uint32_t fault)
{
	for (uint64_t i = 0; i < watch.open_n; i++) {
		struct sr_watched *p = watch.open[i];

		if (p->has_copy && !p->is_closed && is_changed(p))
			compare(t, fault, p);
	}
}

/* Does the call, in a replay, give the program's memory to the kernel, or change what is registered? */
static bool may_stay_closed(const struct sr_call_desc *d)
{
	const bool is_clock = d == &sr_calls[SR_CALL_gettimeofday] || d == &sr_calls[SR_CALL_clock_gettime];

	return !sr_threaded &&
	       (is_clock || d->source == SR_SOURCE_CONTEXT || d->source == SR_SOURCE_QP || d->source == SR_SOURCE_CQ);
}

static void open_all(void)
{
	for (uint64_t i = 0; i < watch.n; i++) {
		sr_watch_open(&watch.pages[i]);
		if (watch.pages[i].may_close)
			note_open(&watch.pages[i]);
	}
}

/*
 * With threads, pages stay open and each is compared.  A poll that finds nothing orders nothing, so that what was stored before it
 * may count as stored before the thread's next call: such polls are millions.
 */
static bool may_wait(const struct sr_call_desc *d)
{
	return sr_threaded && d->order & SR_ORDER_IDLE;
}

static bool is_idle(const struct sr_call_desc *d, uint64_t result)
{
	return d->order & SR_ORDER_IDLE && (int64_t)(int32_t)result == d->idle;
}

static bool brings_nothing(const struct sr_call_desc *d, uint64_t result)
{
	return sr_trial_passes_time(sr_call_number(d)) || is_idle(d, result);
}

void sr_watch_call_begins(const struct sr_thread *t, const struct sr_call_desc *d)
{
	if (watch.fd < 0 || may_wait(d))
		return;
	sr_lock(&watch.lock);
	compare_all(t, 0);
	if (!may_stay_closed(d))
		open_all();
	watch.event++;
	sr_unlock(&watch.lock);
}

static void take_copy(struct sr_watched *p)
{
	if (!p->is_there || p->is_closed)
		return;
	if (!p->has_copy || is_changed(p))
		memcpy(p->copy + p->first, bytes_of(p) + p->first, (size_t)(p->end - p->first));
	p->has_copy = true;
}

/* What is open is closed again, but for pages that the program can store to unseen. */
static void close_all(void)
{
	uint64_t kept = 0;

	for (uint64_t i = 0; i < watch.open_n; i++) {
		struct sr_watched *p = watch.open[i];

		take_copy(p);
		sr_watch_close(p);
		p->is_open = p->is_there && !p->is_closed && (!p->is_exposed || sr_threaded);
		if (p->is_open)
			watch.open[kept++] = p;
	}
	watch.open_n = kept;
}

void sr_watch_call_delivers(const struct sr_thread *t, const struct sr_call_desc *d, uint64_t result)
{
	if (watch.fd < 0 || !may_wait(d) || is_idle(d, result))
		return;
	sr_lock(&watch.lock);
	compare_all(t, 0);
	watch.event++;
	sr_unlock(&watch.lock);
}

void sr_watch_call_ends(const struct sr_call_desc *d, const uint64_t *a, uint64_t result)
{
	const bool idle = is_idle(d, result);

	if (watch.fd < 0 || (idle && may_wait(d)))
		return;
	sr_lock(&watch.lock);
	watch.calls += !brings_nothing(d, result);
	sr_trial_clock(sr_call_number(d), a, result);
	find_pages();
	/* The call may have put something into memory. */
	for (uint64_t i = 0; i < watch.n && !idle; i++)
		if (watch.pages[i].is_exposed)
			take_copy(&watch.pages[i]);
	close_all();
	sr_unlock(&watch.lock);
}

/* A value lies within one page. */
static void take_value(const struct sr_exposed_value *v)
{
	struct sr_watched *p = page_at(v->addr);

	if (p && p->has_copy)
		memcpy(p->copy + v->addr % SR_WATCH_PAGE, v->data, v->length);
}

void sr_watch_values(const struct sr_thread *t, const struct sr_exposed_event *e)
{
	if (watch.fd < 0)
		return;
	sr_lock(&watch.lock);
	/* Where the program gives up its processor, no call begins. At a return the call has changed memory itself. */
	if (e->fault && !(e->flags & SR_EXPOSED_AT_RETURN))
		compare_all(t, (uint32_t)e->fault);
	for (uint32_t i = 0; i < e->values_n; i++)
		take_value(&e->values[i]);
	watch.event++;
	sr_unlock(&watch.lock);
}
