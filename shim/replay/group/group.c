/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/group.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/replay/group/own.h"
#include "shim/kernel/guarded.h"
#include "shim/memory/heap.h"
#include "shim/verbs/regions.h"

bool sr_group_on;
struct sr_group *sr_group_memory;
struct sr_replay_control *sr_group_control;
uint32_t sr_group_self;
struct sr_lock sr_group_lock;

static int file = -1;

/* ---------------------------------------------------------------- the file */

void sr_group_read(uint64_t at, void *p, size_t n)
{
	long got;

	while (n && (got = sr_syscall(SYS_pread64, file, SR_ARG(p), (long)n, (long)at, 0, 0)) > 0) {
		p = (char *)p + got;
		at += (uint64_t)got;
		n -= (size_t)got;
	}
	memset(p, 0, n);
}

void sr_group_write(uint64_t at, const void *p, size_t n)
{
	long put;

	while (p && n &&
	       (put = sr_syscall(SYS_pwrite64, file, SR_ARG(p), (long)n, (long)at, 0, 0)) > 0) {
		p = (const char *)p + put;
		at += (uint64_t)put;
		n -= (size_t)put;
	}
}

/* Parts of the file that this process has mapped.  They stay. */
#define WINDOW  (64ull << 20)
#define WINDOWS 256
#define PROBES  8

static struct window {
	_Atomic uint64_t number; /* 1 more than its place in the file, in windows; 0: none */
	uint8_t *_Atomic p;      /* NULL: it is being mapped, or could not be */
} windows[WINDOWS];

static void map_window(struct window *w, uint64_t number)
{
	void *p = sr_sys_mmap(sr_heap_place_mapping(WINDOW), WINDOW, PROT_READ | PROT_WRITE, MAP_SHARED, file,
			      (off_t)(number * WINDOW));

	if (!sr_sys_is_error(p))
		atomic_store_explicit(&w->p, p, memory_order_release);
}

/* NULL: there is no room, or another thread is just mapping it: then system calls do as well. */
static uint8_t *window_of(uint64_t number)
{
	/* Members' parts of the file lie large powers of two apart. */
	uint64_t at = number * 0x9e3779b97f4a7c15ull >> 32;

	for (uint64_t i = 0; i < PROBES; i++) {
		struct window *w = &windows[(at + i) % WINDOWS];
		uint64_t has = atomic_load_explicit(&w->number, memory_order_acquire);

		if (!has && atomic_compare_exchange_strong(&w->number, &has, number + 1)) {
			map_window(w, number);
			has = number + 1;
		}
		if (has == number + 1)
			return atomic_load_explicit(&w->p, memory_order_acquire);
	}
	return NULL;
}

/* NULL: it is not mapped, or not by one window. */
static uint8_t *mapped_at(uint64_t at, size_t n)
{
	uint8_t *p = at % WINDOW + n <= WINDOW ? window_of(at / WINDOW) : NULL;

	return p ? p + at % WINDOW : NULL;
}

void sr_group_read_own(uint64_t at, void *p, size_t n)
{
	const uint8_t *from = mapped_at(at, n);

	if (from)
		memcpy(p, from, n);
	else
		sr_group_read(at, p, n);
}

void sr_group_write_own(uint64_t at, const void *p, size_t n)
{
	uint8_t *to = mapped_at(at, n);

	if (to)
		memcpy(to, p, n);
	else
		sr_group_write(at, p, n);
}

static bool copy_pieces(uint8_t *to, const struct sr_piece *pieces, uint32_t n)
{
	for (uint32_t i = 0; i < n; to += pieces[i++].length)
		if (!sr_guarded_copy(to, pieces[i].p, pieces[i].length))
			return false;
	return true;
}

void sr_group_write_pieces(uint64_t at, const struct sr_piece *pieces, uint32_t n)
{
	size_t size = 0;
	uint8_t *to;

	for (uint32_t i = 0; i < n; i++)
		size += pieces[i].length;
	to = mapped_at(at, size);
	if (to && copy_pieces(to, pieces, n))
		return;
	for (uint32_t i = 0; i < n; at += pieces[i++].length)
		sr_group_write(at, pieces[i].p, pieces[i].length);
}

void sr_group_copy(void *to, const void *from, size_t n)
{
	if (sr_regions_on && n && sr_exposed_touches(from, n))
		sr_exposed_copy(from, to, n);
	else if (n && !sr_guarded_copy(to, from, n))
		memset(to, 0, n);
}

void sr_group_write_memory(uint64_t at, const void *p, size_t n)
{
	static uint8_t copy[16384];
	uint8_t *to;

	if (!p || !sr_regions_on || !n || !sr_exposed_touches(p, n)) {
		to = p && n ? mapped_at(at, n) : NULL;
		if (!to || !sr_guarded_copy(to, p, n))
			sr_group_write(at, p, n);
		return;
	}
	while (n) {
		size_t part = n < sizeof(copy) ? n : sizeof(copy);

		sr_group_copy(copy, p, part);
		sr_group_write_own(at, copy, part);
		p = (const char *)p + part;
		at += part;
		n -= part;
	}
}

void sr_group_discard(uint64_t from, uint64_t to)
{
	from = sr_page_up(from);
	to = sr_page_down(to);
	if (from < to)
		sr_syscall(SYS_fallocate, file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			   (long)from, (long)(to - from), 0, 0);
}

void sr_group_start(struct sr_replay_control *c)
{
	struct sr_group head;
	void *p;

	if (c->group_fd < 0)
		return;
	file = c->group_fd;
	if (sr_syscall(SYS_pread64, file, SR_ARG(&head), offsetof(struct sr_group, channel), 0, 0,
		       0) != offsetof(struct sr_group, channel) ||
	    head.magic != SR_GROUP_MAGIC)
		return;
	p = sr_sys_mmap(sr_heap_place_mapping(head.size), head.size, PROT_READ | PROT_WRITE,
			MAP_SHARED, file, 0);
	if (sr_sys_is_error(p) || !sr_contents_begin())
		return;
	sr_group_memory = p;
	sr_group_control = c;
	sr_group_self = c->member;
	if (!c->fork[0].number)
		sr_group_join();
}

void sr_group_join(void)
{
	struct sr_group_member *self;

	if (!sr_group_memory)
		return;
	sr_group_lock = (struct sr_lock){0};
	self = &sr_group_memory->member[sr_group_self];
	atomic_store(&self->process, (int32_t)sr_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0));
	/* When a peer READs this process's memory, the proxy reads that memory: see proxy.c. */
	if (sr_group_over_device())
		sr_syscall(SYS_prctl, PR_SET_PTRACER,
			   atomic_load(&sr_group_memory->proxy.process), 0, 0, 0, 0);
	atomic_store(&self->state, SR_GROUP_RUNS);
	sr_group_on = true;
}

/* -------------------------------------------------------------------- notes */

struct note {
	uint16_t kind;
	union {
		struct sr_group_wait wait;
		struct sr_group_peer peer;
	};
};

void sr_group_note(struct sr_buf *notes, uint16_t kind, const void *payload, size_t size)
{
	struct note n = {.kind = kind};

	if (size > sizeof(n.peer))
		size = sizeof(n.peer);
	memcpy(&n.wait, payload, size);
	if (sr_group_on)
		sr_put_raw(notes, &n, sizeof(n));
}

/* The rank of a member that ended before its program did, where one was waited for; -1: none so far. */
static _Atomic int32_t early_end = -1;

void sr_group_has_ended(uint32_t member)
{
	const struct sr_group_member *m = &sr_group_memory->member[member];

	if (!atomic_load(&m->whole))
		atomic_store(&early_end, m->rank);
}

int32_t sr_group_rank(void)
{
	return sr_group_on ? sr_group_memory->member[sr_group_self].rank : -1;
}

int32_t sr_group_early_end(void)
{
	return atomic_load(&early_end);
}

static bool is_member(int32_t member)
{
	return member >= 0 && (uint32_t)member < sr_group_memory->members;
}

static bool take_note(struct sr_thread *t, const struct note *n)
{
	if (n->kind == SR_REC_REPLAY_WAIT) {
		if (!is_member(n->wait.member) || n->wait.thread >= SR_REPLAY_THREADS ||
		    sr_progress_wait(t, &n->wait))
			return true;
		sr_group_has_ended((uint32_t)n->wait.member);
		return false;
	}
	sr_lock(&sr_group_lock);
	sr_requests_peer(&n->peer);
	sr_unlock(&sr_group_lock);
	return true;
}

bool sr_group_wait_for_dependencies(struct sr_thread *t, struct sr_buf *notes, size_t due)
{
	bool held = true;

	for (size_t at = 0; at < due && held; at += sizeof(struct note)) {
		struct note n;

		memcpy(&n, notes->p + at, sizeof(n));
		held = take_note(t, &n);
	}
	notes->len -= due;
	memmove(notes->p, notes->p + due, notes->len);
	return held;
}

/* -------------------------------------------------------------------- calls */

void sr_group_enter(struct sr_thread *t, enum sr_call_number n)
{
	if (sr_group_on && !sr_group_posts(n))
		sr_progress_enter(t->number, t->sn);
	else if (sr_group_memory && !sr_group_on)
		sr_progress_move();
}

void sr_group_stop(uint32_t thread, uint64_t sn, uint64_t stop)
{
	if (sr_group_on)
		sr_progress_stop(thread, sn, stop);
}

/*
 * The table is full: its last entry covers this mapping as well.  Whose memory is there is not known then, and what is found there is
 * not said to be by nobody.
 */
static void cover(struct sr_group_shared *last, uint64_t addr, uint64_t length)
{
	uint64_t end = last->addr + last->length;

	if (addr + length > end)
		end = addr + length;
	if (addr < last->addr)
		last->addr = addr;
	last->length = end - last->addr;
	last->object = 0;
}

/* With the lock.  a: of the call shared_mapping. */
static void add_shared(const uint64_t *a)
{
	struct sr_group_member *self = &sr_group_memory->member[sr_group_self];
	uint32_t n = atomic_load(&self->shared_n);
	const uint64_t *object = (const uint64_t *)a[2];

	if (n >= SR_GROUP_MAPPINGS) {
		cover(&self->shared[n - 1], a[0], a[1]);
		return;
	}
	self->shared[n] = (struct sr_group_shared){a[0], a[1], object[0], object[1], sr_history_writes(sr_group_self)};
	atomic_store(&self->shared_n, n + 1);
}

void sr_group_replayed(struct sr_thread *t, const struct sr_group_call *call, enum sr_call_number n,
		       const uint64_t *a, uint64_t result)
{
	if (!sr_group_memory)
		return;
	sr_lock(&sr_group_lock);
	if (sr_group_on) {
		sr_transfer_for(call);
		sr_requests_call(t, n, a, result);
	}
	/* A child has its parent's as well. */
	if (n == SR_CALL_shared_mapping && (int)result)
		add_shared(a);
	sr_unlock(&sr_group_lock);
	if (sr_group_on && sr_group_posts(n))
		sr_progress_enter(t->number, t->sn);
}

const struct sr_group_call *sr_group_not_transferred(void)
{
	const struct sr_group_call *call = NULL;
	const char *why;

	if (sr_group_on)
		call = sr_transfer_failed(&why);
	if (call)
		strncpy(sr_group_control->not_transferred, why,
			sizeof(sr_group_control->not_transferred) - 1);
	return call;
}

const struct sr_group_call *sr_group_not_transferred_at_all(void)
{
	if (sr_group_on)
		sr_transfer_all();
	return sr_group_not_transferred();
}

void sr_group_linger(void)
{
	if (sr_group_on)
		sr_progress_linger();
}

/* ------------------------------------------------------------------ exposed regions */

void sr_group_region(struct sr_thread *t, uint64_t addr, uint64_t length)
{
	struct sr_group_member *self;
	uint32_t n;

	if (!sr_group_on)
		return;
	self = &sr_group_memory->member[sr_group_self];
	sr_lock(&sr_group_lock);
	n = atomic_load(&self->regions);
	if (n < SR_GROUP_REGIONS) {
		self->exposed[n] = (struct sr_group_region){addr, length};
		atomic_store(&self->regions, n + 1);
	}
	sr_contents_region(t, addr, length);
	sr_unlock(&sr_group_lock);
}

/* Of the event's values of which the trace has the bytes, the first one at this address or behind it; NULL: there is none. */
static const struct sr_exposed_value *next_kept(const struct sr_exposed_event *e, uintptr_t addr)
{
	const struct sr_exposed_value *next = NULL;

	for (uint32_t i = 0; i < e->values_n; i++) {
		const struct sr_exposed_value *v = &e->values[i];

		if (!v->mask && v->length && v->addr >= addr && (!next || v->addr < next->addr))
			next = v;
	}
	return next;
}

static void see(struct sr_thread *t, const struct sr_exposed_event *e, const struct sr_exposed_value *of, uintptr_t from, uintptr_t end)
{
	const struct sr_value v = {
	    .t = t,
	    .addr = from,
	    .bytes = (const uint8_t *)of->data + (from - of->addr),
	    .length = (uint32_t)(end - from),
	    .fault = (uint32_t)e->fault,
	    .written = e->flags & SR_EXPOSED_WRITTEN && !sr_exposed_touches((void *)from, 1),
	};

	if (from < end)
		sr_value_seen(&v);
}

/* What the trace leaves out lies under the short values that it has: their bytes are seen once, as theirs. */
static void see_left_out(struct sr_thread *t, const struct sr_exposed_event *e, const struct sr_exposed_value *v)
{
	const uintptr_t end = v->addr + v->length;
	uintptr_t at = v->addr;

	for (const struct sr_exposed_value *k = next_kept(e, at); k && k->addr < end; k = next_kept(e, at)) {
		see(t, e, v, at, k->addr);
		at = k->addr + k->length;
	}
	see(t, e, v, at, end);
}

void sr_group_seen(struct sr_thread *t, const struct sr_exposed_event *e)
{
	/* Needed because memory compared at calls is not under the exposed regions' lock. */
	static struct sr_lock lock;

	if (!sr_group_on)
		return;
	sr_lock(&lock);
	for (uint32_t i = 0; i < e->values_n; i++) {
		const struct sr_exposed_value *v = &e->values[i];

		if (v->mask)
			see_left_out(t, e, v);
		else
			see(t, e, v, v->addr, v->addr + v->length);
	}
	sr_unlock(&lock);
}
