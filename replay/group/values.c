/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * values.c: what entered is compared with what the group produced.
 *
 * The recorded bytes are what the program gets in any case.  Where they are those
 * that a member of the group wrote, it is their producer; else they came from
 * outside.  On a connection between two members nothing comes from outside: a
 * message that differs from what its sender sends is a contradiction in the trace.
 */
#include <string.h>
#include <sys/uio.h>

#include "logd/rawsys.h"
#include "replay/group/own.h"
#include "replay/plan.h"
#include "shim/window/window.h"

static void report(const struct sr_value *v, uint32_t from, uint32_t length,
		   const struct sr_group_origin *o, uint16_t flags)
{
	struct sr_plan_found f = {
	    .sn = v->t->sn,
	    .addr = v->addr + from,
	    .thread = v->t->number,
	    .fault = v->fault,
	    .length = length,
	    .producer = SR_PLAN_OUTSIDE,
	    .flags = flags,
	};
	_Atomic uint64_t *bytes =
	    o ? &sr_group_control->found_inside : &sr_group_control->found_outside;

	if (!length)
		return;
	if (!(flags & SR_FOUND_UNCHANGED))
		atomic_fetch_add(bytes, length);
	if (o) {
		f.producer = sr_group_memory->member[o->member].rank;
		f.producer_thread = o->thread;
		f.producer_sn = o->sn;
		f.request = (uint16_t)o->request;
	}
	sr_syscall(SYS_write, sr_group_control->found_fd, SR_ARG(&f), sizeof(f), 0, 0, 0);
}

void sr_value_from_outside(const struct sr_value *v)
{
	report(v, 0, v->length, NULL, 0);
}

/* ----------------------------------------------------------------- messages */

/* Bytes at a time; a longer value is compared piece by piece. */
#define PIECE 65536

struct difference {
	bool any;
	uint32_t first, end; /* of the value's bytes */
};

static struct difference compare(const struct sr_value *v, const struct sr_group_channel *c,
				 const struct sr_group_message *m, uint32_t from)
{
	static uint8_t sent[PIECE], recorded[PIECE];
	struct difference d = {.any = false};

	for (uint32_t at = 0; at < v->length;) {
		uint32_t n = v->length - at < PIECE ? v->length - at : PIECE;

		memset(sent, 0, n);
		sr_channel_bytes(c, m, from + at, sent, n);
		sr_group_copy(recorded, v->bytes + at, n);
		if (!memcmp(sent, recorded, n)) {
			at += n;
			continue;
		}
		for (uint32_t i = 0; i < n; i++) {
			if (sent[i] == recorded[i])
				continue;
			if (!d.any)
				d.first = at + i;
			d.any = true;
			d.end = at + i + 1;
		}
		at += n;
	}
	return d;
}

bool sr_value_is_sent(const struct sr_value *v, const struct sr_group_channel *c,
		      const struct sr_group_message *m, uint32_t from)
{
	return !compare(v, c, m, from).any;
}

static void contradict(const struct sr_value *v, const struct sr_group_channel *c,
		       const struct sr_group_message *m, uint32_t from, uint32_t at)
{
	struct sr_replay_mismatch *x = &sr_group_control->mismatch;
	uint32_t shown = v->length - at < sizeof(x->recorded) ? v->length - at
							      : (uint32_t)sizeof(x->recorded);

	if (atomic_fetch_add(&sr_group_control->mismatches, 1))
		return;
	*x = (struct sr_replay_mismatch){
	    .thread = v->t->number,
	    .sn = v->t->sn,
	    .addr = v->addr,
	    .length = v->length,
	    .at = at,
	    .from = sr_group_memory->member[m->origin.member].rank,
	    .from_thread = m->origin.thread,
	    .from_sn = m->origin.sn,
	};
	sr_group_copy(x->recorded, v->bytes + at, shown);
	sr_channel_bytes(c, m, from + at, x->produced, shown);
}

/* Memory that several receives share may hold, byte by byte, what came after. */
struct later {
	const struct sr_value *v;
	const struct sr_group_channel *c;
	const struct sr_group_message *m;
	uint32_t from;
	struct difference d;
};

#define LATER_MESSAGES 1024

static bool is_in_later(void *argument)
{
	const struct later *l = argument;
	uint64_t posted = atomic_load(&l->c->posted);

	for (uint32_t i = l->d.first; i < l->d.end; i++) {
		uint64_t number = l->m->number;
		uint8_t recorded, sent;
		bool same;

		sr_group_copy(&recorded, l->v->bytes + i, 1);
		do {
			struct sr_group_message m;

			sr_channel_message(l->c, number, &m);
			sr_channel_bytes(l->c, &m, l->from + i, &sent, 1);
			same = m.length > l->from + i && sent == recorded;
		} while (!same && ++number < posted && number < l->m->number + LATER_MESSAGES);
		if (!same)
			return false;
	}
	return true;
}

static bool is_overwritten(const struct sr_value *v, const struct sr_group_channel *c,
			   const struct sr_group_message *m, uint32_t from, struct difference d)
{
	struct later l = {v, c, m, from, d};

	/* Its sender may be behind. */
	sr_progress_until((uint32_t)c->key.from, is_in_later, &l);
	return is_in_later(&l);
}

void sr_value_received(const struct sr_value *v, struct sr_group_channel *c,
		       const struct sr_group_message *m, uint32_t from, enum sr_sharing sharing)
{
	struct difference d = compare(v, c, m, from);

	if (!d.any || sharing == SR_SHARED_SHIFTED ||
	    (sharing == SR_SHARED_ALIKE && is_overwritten(v, c, m, from, d))) {
		report(v, 0, v->length, &m->origin, d.any ? SR_FOUND_SEVERAL : 0);
		return;
	}
	report(v, 0, d.first, &m->origin, 0);
	report(v, d.first, d.end - d.first, NULL, 0);
	report(v, d.end, v->length - d.end, &m->origin, 0);
	contradict(v, c, m, from, d.first);
}

/* ------------------------------------------------------------------ fetches */

/* In place of an origin. */
#define NOBODY    (-1)
#define FROM_CPU  (-2)
#define UNCHANGED (-3)

/* A look into a member's own memory. */
struct look {
	uint32_t member;
	uint64_t addr;
	const uint8_t *bytes;
	uint32_t n;
	int16_t *who;
};

static bool read_there(const struct sr_group_member *m, uint64_t addr, void *to, uint32_t n)
{
	struct iovec local = {to, n}, remote = {(void *)(uintptr_t)addr, n};
	int32_t process = atomic_load(&m->process);

	return process && sr_syscall(SYS_process_vm_readv, process, SR_ARG(&local), 1,
				     SR_ARG(&remote), 1, 0) == (long)n;
}

/* What peers write has another address, too; where its own is closed, that one is not. */
static bool read_memory(const struct sr_group_member *m, uint64_t addr, void *to, uint32_t n)
{
	for (uint32_t i = 0; i < atomic_load(&m->windows); i++) {
		const struct sr_group_window *w = &m->window[i];

		if (addr - w->addr < w->length && n <= w->length - (addr - w->addr) &&
		    read_there(m, w->landing + (addr - w->addr), to, n))
			return true;
	}
	return read_there(m, addr, to, n);
}

/* Bytes that nobody was found for, and that are what its memory holds.  Are all found then? */
static bool look(void *argument)
{
	static uint8_t there[SR_HISTORY_PIECE];
	struct look *l = argument;
	bool read = read_memory(&sr_group_memory->member[l->member], l->addr, there, l->n);
	bool all = true;

	for (uint32_t i = 0; i < l->n; i++) {
		if (read && l->who[i] == NOBODY && there[i] == l->bytes[i])
			l->who[i] = FROM_CPU;
		all = all && l->who[i] != NOBODY;
	}
	return all;
}

/* Runs of bytes with the same producer. */
static void report_runs(const struct sr_value *v, uint32_t from, uint32_t n,
			const struct sr_history_match *f, const struct sr_group_origin *cpu)
{
	for (uint32_t at = 0; at < n;) {
		int16_t who = f->who[at];
		uint32_t end = at + 1;

		while (end < n && f->who[end] == who)
			end++;
		if (who == FROM_CPU)
			report(v, from + at, end - at, cpu, SR_FOUND_CPU);
		else if (who == UNCHANGED)
			report(v, from + at, end - at, NULL, SR_FOUND_UNCHANGED);
		else
			report(v, from + at, end - at, who < 0 ? NULL : &f->origins[who], 0);
		at = end;
	}
}

static uint32_t piece_at(const struct sr_value *v, uint32_t at)
{
	return v->length - at < SR_HISTORY_PIECE ? v->length - at : SR_HISTORY_PIECE;
}

void sr_value_fetched(const struct sr_value *v, uint32_t member, uint64_t remote_addr,
		      uint64_t tick)
{
	static struct sr_history_match f;
	static uint8_t recorded[SR_HISTORY_PIECE];
	struct sr_group_origin cpu = sr_progress_seen(member);

	for (uint32_t at = 0, n; at < v->length; at += n) {
		n = piece_at(v, at);
		sr_group_copy(recorded, v->bytes + at, n);
		sr_history_match(member, remote_addr + at, recorded, n, tick, &f);
		/* It may be behind: nothing says how far it had come when this was READ. */
		sr_progress_until(
		    member, look, &(struct look){member, remote_addr + at, recorded, n, f.who});
		report_runs(v, at, n, &f, &cpu);
	}
}

/* A piece of a value, and the memory in front of it. */
struct seen {
	uint64_t addr;
	const uint8_t *bytes, *before;
	uint32_t n;
	struct sr_history_match *f;
};

/* Are all found that have changed? */
static bool find_writers(void *argument)
{
	struct seen *s = argument;
	bool all = true;

	sr_history_match(sr_group_self, s->addr, s->bytes, s->n, UINT64_MAX, s->f);
	for (uint32_t i = 0; i < s->n; i++) {
		if (s->f->who[i] == NOBODY && s->before[i] == s->bytes[i])
			s->f->who[i] = UNCHANGED;
		all = all && s->f->who[i] != NOBODY;
	}
	return all;
}

static void spend(const struct seen *s)
{
	for (uint32_t at = 0; at < s->n; at++)
		if (s->f->who[at] >= 0)
			sr_history_spend(s->addr + at, &s->f->origins[s->f->who[at]]);
}

/*
 * In the handler of a fault: the windows are locked, and stay as they are.  Without
 * clocks, who wrote what was seen may be behind in this replay.  It does not need us
 * for it: it had written it before we saw it.
 */
void sr_value_seen(const struct sr_value *v)
{
	static struct sr_history_match f = {.changed = true};

	for (uint32_t at = 0; at < v->length;) {
		struct seen s = {.addr = v->addr + at,
				 .bytes = v->bytes + at,
				 .before = sr_window_landing((void *)(uintptr_t)(v->addr + at)),
				 .n = piece_at(v, at),
				 .f = &f};

		f.ahead_counts = !sr_group_control->has_clocks;
		if (f.ahead_counts)
			sr_progress_until_any(find_writers, &s);
		else
			find_writers(&s);
		spend(&s);
		report_runs(v, at, s.n, &f, NULL);
		at += s.n;
	}
}
