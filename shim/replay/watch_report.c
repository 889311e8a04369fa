/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/watch_report.h"

#include <string.h>
#include <sys/syscall.h>

#include "logd/base/rawsys.h"
#include "shim/replay/trial.h"

#define RECENT 256
/* A load among others that finds the same bytes again so often is one that waits. */
#define IN_VAIN 3

struct recent {
	struct sr_watch_access a;
	uint64_t event, found; /* found: of a load, its first bytes */
	uint64_t calls;        /* that brought something, before */
	uint32_t in_vain;      /* so often since such a call it found them again */
	bool is_polled;
};

struct at {
	uint64_t pc, address;
};

/* Mapped where they are needed, since the library's image must be small (tests/unit/shim/image.py). */
struct tables {
	struct recent recent[RECENT]; /* reported, by hash */
	struct at last[RECENT];       /* of an instruction what it loaded last, by hash */
};

static struct {
	int fd;
	bool is_trial;
	struct tables *tables;
	uint64_t event;
	uint64_t calls; /* that brought something: no polls in vain, no clocks */
} reports;

void sr_watch_put(const struct sr_watch_access *a)
{
	if (reports.is_trial && a->kind != SR_WATCH_REACHED && !(a->kind == SR_WATCH_POLL && sr_trial_asks(a)))
		return;
	sr_syscall(SYS_write, reports.fd, SR_ARG(a), sizeof(*a), 0, 0, 0);
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
	sr_watch_put(&poll);
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
	struct at *last = &reports.tables->last[hash(a->pc)];
	const bool is = last->pc == a->pc && last->address == a->address;

	*last = (struct at){a->pc, a->address};
	return is;
}

/* In the page, or in a copy of it. */
static uint64_t bytes_at(const char *page, const struct sr_watch_access *a)
{
	const size_t at = a->address % SR_WATCH_PAGE, n = SR_WATCH_PAGE - at;
	uint64_t word = 0;

	memcpy(&word, page + at, a->length < sizeof(word) && a->length < n ? a->length : n < sizeof(word) ? n : sizeof(word));
	return word;
}

/*
 * Is this load done again, before the next call that brings something, because the program waits for the bytes to change?
 * (It may sleep meanwhile, and libraries poll their completion queues.)  If the instruction has loaded others in between, it may look at several
 * flags in turn, or at the next message in the same place.
 */
static bool is_poll(const struct sr_watched *p, struct recent *r, const struct sr_watch_access *a, bool same)
{
	const bool again = is_again(a), is_repeated = same && r->calls == reports.calls && (r->a.sn != a->sn || r->a.fault != a->fault);
	const uint64_t found = bytes_at(sr_watch_bytes(p), a);

	r->in_vain = is_repeated && r->found == found ? r->in_vain + 1 : 0;
	r->found = found;
	r->calls = reports.calls;
	/* What it has loaded in between is not known of a page whose loads are not all seen. */
	return is_repeated && ((again && !p->is_unseen) || r->in_vain >= IN_VAIN);
}

/* Was the same access reported since the last event?  Then nothing has come between the two. */
static bool is_recent(const struct sr_watched *p, const struct sr_watch_access *a)
{
	struct recent *r = &reports.tables->recent[hash(a->pc * 31 + a->address)];
	const bool same = is_same(&r->a, a);

	if (a->kind == SR_WATCH_LOAD && is_poll(p, r, a, same))
		report_poll(r, a);
	if (same && r->event == reports.event) {
		r->a.fault = a->fault;
		return true;
	}
	r->a = *a;
	r->event = reports.event;
	r->is_polled = same && r->is_polled;
	return false;
}

/* The access that a trial asks for. */
static void __attribute__((noreturn)) report_reached(const struct sr_watch_access *a)
{
	struct sr_watch_access reached = *a;

	reached.kind = SR_WATCH_REACHED;
	sr_watch_put(&reached);
	sr_trial_end();
}

void sr_watch_report(const struct sr_watched *p, const struct sr_watch_access *a)
{
	struct sr_watch_access full = *a;

	if (reports.is_trial && (a->kind == SR_WATCH_LOAD || a->kind == SR_WATCH_STORE) && sr_trial_wants(a))
		report_reached(a);
	if (is_recent(p, a))
		return;
	full.bytes = bytes_at(sr_watch_bytes(p), a);
	full.has_before = a->kind == SR_WATCH_LOAD && p->has_older;
	full.before = full.has_before ? bytes_at(p->older, a) : 0;
	sr_watch_put(&full);
}

void sr_watch_event(void)
{
	reports.event++;
}

void sr_watch_call_brings(void)
{
	reports.calls++;
}

bool sr_watch_report_start(int fd, bool is_trial)
{
	reports.fd = fd;
	reports.is_trial = is_trial;
	reports.tables = sr_watch_map(sizeof(*reports.tables));
	return reports.tables;
}
