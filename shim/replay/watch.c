/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/watch.h"

#include <string.h>
#include <sys/syscall.h>

#include "logd/base/rawsys.h"
#include "shim/core/order.h"
#include "shim/memory/heap.h"
#include "shim/replay/trial.h"
#include "shim/replay/watch_pages.h"
#include "shim/replay/watch_report.h"

bool sr_watch_on;

/* How many calls under way need each page open; and does this thread's? */
static uint32_t holders;
static __thread bool holds SR_INITIAL_EXEC;

static const struct sr_watch_range *read_ranges(int fd, uint64_t n)
{
	const size_t bytes = n * sizeof(struct sr_watch_range);
	void *p = sr_watch_map(bytes);

	if (!p)
		return NULL;
	return sr_syscall(SYS_pread64, fd, SR_ARG(p), (long)bytes, sizeof(struct sr_watch_head), 0, 0) == (long)bytes ? p : NULL;
}

/* ------------------------------------------------------------- single accesses */

/* A comparison is to find what nobody has seen: what this instruction stored is known. */
static void take_store(struct sr_watched *p, const struct sr_watch_access *a)
{
	size_t at = a->address % SR_WATCH_PAGE, n = SR_WATCH_PAGE - at;

	p->stored_by = a->pc;
	sr_watch_list(p); /* its page may be passed through from now on */
	if (p->has_copy && !p->is_closed)
		memcpy(p->copy + at, sr_watch_bytes(p) + at, a->length < n ? a->length : n);
}

static void take_access(const struct sr_watch_access *a)
{
	struct sr_watched *p = sr_watch_page_at(a->address);

	if (!p || !sr_watch_has(a->address, a->address + a->length))
		return;
	sr_watch_lock();
	sr_watch_report(p, a);
	if (a->kind == SR_WATCH_STORE)
		take_store(p, a);
	sr_watch_unlock();
}

/* A page is reported once: what is not seen of it later changes nothing. */
static void take_unseen(const struct sr_watch_access *from)
{
	struct sr_watched *p = sr_watch_page_at(from->address);

	if (!p)
		return;
	sr_watch_lock();
	sr_watch_list(p);
	/* What a call accesses is not the program's doing. */
	if (!p->is_unseen && !sr_self.depth) {
		sr_watch_put(from);
		p->is_unseen = true;
	}
	sr_watch_unlock();
}

/* The program unmaps memory that is still registered, or maps something else there: it can be read no more. */
static void forget_pages(void *address, size_t size)
{
	sr_watch_lock();
	sr_watch_forget_pages((uintptr_t)address, (uintptr_t)address + size);
	sr_watch_unlock();
}

static void put_beside(uint32_t thread, uint64_t sn)
{
	sr_watch_put(&(struct sr_watch_access){.sn = sn, .thread = thread, .kind = SR_WATCH_BESIDE});
}

bool sr_watch_start(int fd)
{
	struct sr_watch_head head;
	const struct sr_watch_range *ranges;

	if (sr_syscall(SYS_pread64, fd, SR_ARG(&head), sizeof(head), 0, 0, 0) != sizeof(head) || head.ranges > UINT32_MAX)
		return false;
	/* Then only stacks are asked for. */
	if (!head.ranges)
		return true;
	ranges = read_ranges(fd, head.ranges);
	if (!ranges || !sr_watch_pages_start(ranges, head.ranges))
		return false;
	if (head.trial.length <= SR_WATCH_TRIAL_MOST)
		sr_trial_start(&head.trial);
	if (!sr_watch_report_start(fd, head.trial.length))
		return false;
	sr_heap_on_mapping_end(forget_pages);
	sr_watch_access_start(&(struct sr_watch_access_user){.take = take_access, .unseen = take_unseen});
	sr_watch_on = true;
	if (!sr_serial)
		put_beside(SR_WATCH_ALL_THREADS, 0);
	return true;
}

void sr_watch_others_run(const struct sr_thread *t)
{
	if (!sr_watch_on)
		return;
	sr_watch_lock();
	put_beside(t->number, t->sn);
	sr_watch_unlock();
}

/* ------------------------------------------------------------------------ calls */

struct moment {
	const struct sr_thread *t;
	uint32_t fault;
};

/* Each run of bytes that differ is a store. */
static void report_change(const struct sr_watched *p, size_t begin, size_t end, void *argument)
{
	const struct moment *m = argument;
	const struct sr_watch_access a = {.sn = m->t->sn,
					  .address = p->address + begin,
					  .pc = p->stored_by,
					  .thread = m->t->number,
					  .length = (uint32_t)(end - begin),
					  .fault = m->fault,
					  .kind = SR_WATCH_CHANGED};

	if (sr_watch_has(a.address, a.address + a.length))
		sr_watch_put(&a);
}

static void compare_all(const struct sr_thread *t, uint32_t fault)
{
	sr_watch_compare(report_change, &(struct moment){t, fault});
}

/* Is it a call that does not look at memory but by the shim, and that changes nothing but what it is told of? */
static bool is_data_path(const struct sr_call_desc *d)
{
	return d->flags & SR_CALL_PAUSES || d->source == SR_SOURCE_CONTEXT || d->source == SR_SOURCE_QP || d->source == SR_SOURCE_CQ;
}

/* Does a replay make the call, or something like it?  Of others it has the results. */
static bool is_made(const struct sr_call_desc *d)
{
	const bool is_of_system = d->source == SR_SOURCE_LIBC || d->source == SR_SOURCE_KERNEL;

	return !is_data_path(d) && (!is_of_system || d->flags & SR_CALL_EFFECT || d->replayed);
}

/* A poll that finds nothing orders nothing, so that what was stored before it may count as stored before the thread's next call. */
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
	return d->flags & SR_CALL_PAUSES || is_idle(d, result);
}

/* With the lock. */
static void hold_open(void)
{
	if (!holds)
		holders++;
	holds = true;
	sr_watch_open_all();
}

void sr_watch_regions_change(void)
{
	if (!sr_watch_on)
		return;
	sr_watch_lock();
	hold_open();
	sr_watch_unlock();
}

void sr_watch_call_begins(const struct sr_thread *t, const struct sr_call_desc *d)
{
	if (!sr_watch_on || may_wait(d))
		return;
	sr_watch_lock();
	compare_all(t, 0);
	/* Without threads, closed pages cannot be read. */
	if (!sr_threaded && !is_data_path(d))
		hold_open();
	sr_watch_event();
	sr_watch_unlock();
}

void sr_watch_call_delivers(const struct sr_thread *t, const struct sr_call_desc *d, uint64_t result)
{
	if (!sr_watch_on)
		return;
	sr_watch_lock();
	if (may_wait(d) && !is_idle(d, result)) {
		compare_all(t, 0);
		sr_watch_event();
	}
	if (is_made(d))
		hold_open();
	sr_watch_unlock();
}

void sr_watch_call_ends(const struct sr_call_desc *d, const uint64_t *a, uint64_t result)
{
	if (!sr_watch_on)
		return;
	sr_watch_lock();
	if (!brings_nothing(d, result))
		sr_watch_call_brings();
	sr_trial_clock(sr_call_number(d), a, result);
	holders -= holds;
	holds = false;
	if (!(is_idle(d, result) && may_wait(d))) {
		sr_watch_find_pages();
		if (!holders)
			sr_watch_close_all();
	}
	sr_watch_unlock();
}

bool sr_watch_polls_in_vain(void)
{
	if (sr_threaded)
		return true;
	if (sr_watch_any_listed())
		return false;
	sr_watch_event();
	return true;
}

/* Bytes of an exposed page are about to change: as they are now they would have been found if the value had come later. */
static void keep_older(struct sr_watched *p, size_t at, size_t n)
{
	if (!p->has_older) {
		at = 0;
		n = SR_WATCH_PAGE;
	}
	memcpy(p->older + at, sr_watch_bytes(p) + at, n);
	p->has_older = true;
}

/* A value lies within one page. */
static void take_value(const struct sr_exposed_value *v)
{
	struct sr_watched *p = sr_watch_page_at(v->addr);

	if (p && p->is_exposed && p->is_there)
		keep_older(p, v->addr % SR_WATCH_PAGE, v->length);
	if (p && p->has_copy)
		memcpy(p->copy + v->addr % SR_WATCH_PAGE, v->data, v->length);
}

void sr_watch_values(const struct sr_thread *t, const struct sr_exposed_event *e)
{
	if (!sr_watch_on)
		return;
	sr_watch_lock();
	/* Where the program gives up its processor, no call begins. At a return the call has changed memory itself. */
	if (e->fault && !(e->flags & SR_EXPOSED_AT_RETURN))
		compare_all(t, (uint32_t)e->fault);
	for (uint32_t i = 0; i < e->values_n; i++)
		take_value(&e->values[i]);
	sr_watch_event();
	sr_watch_unlock();
}
