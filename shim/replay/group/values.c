/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * values.c: compares the bytes that entered a rank with those that the group produced.
 *
 * The program gets the recorded bytes in any case.  If a member of the group wrote the same
 * bytes, that member's call is their producer; otherwise they came from outside.  On a
 * connection between two members nothing comes from outside: a message that differs from
 * what its sender sends is a contradiction in the trace.
 *
 * For bytes found in memory, producers.c determines the writer after all ranks have ended.
 * During the replay the writer may be behind or far ahead, and the report must depend on
 * the trace alone.
 */
#include <string.h>

#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/replay/group/fetched_before.h"
#include "shim/replay/group/fetches.h"
#include "shim/replay/group/own.h"
#include "replay/abi/group.h"
#include "shim/exposed/exposed.h"
#include "shim/kernel/guarded.h"
#include "shim/threads/main_stack.h"

/* It is then in the group's file, also if the process is killed. */
static void keep(const struct sr_found_value *f)
{
	struct sr_group_member *self = &sr_group_memory->member[sr_group_self];

	sr_group_write_own(sr_group_found_at(sr_group_self) + atomic_fetch_add(&self->found, sizeof(*f)), f, sizeof(*f));
}

static void report(const struct sr_value *v, uint32_t from, uint32_t length,
		   const struct sr_group_origin *o, uint16_t flags)
{
	struct sr_found_value f = {
	    .sn = v->t->sn,
	    .addr = v->addr + from,
	    .thread = v->t->number,
	    .fault = v->fault,
	    .length = length,
	    .producer = SR_RANK_OUTSIDE,
	    .flags = flags,
	};

	if (!length)
		return;
	if (o) {
		f.producer = sr_group_memory->member[o->member].rank;
		f.producer_thread = o->thread;
		f.producer_sn = o->sn;
		f.request = (uint16_t)o->request;
	}
	keep(&f);
}

void sr_value_from_outside(const struct sr_value *v)
{
	report(v, 0, v->length, NULL, 0);
}

/* ----------------------------------------------------------------- messages */

/* A longer value is compared in pieces of this many bytes. */
#define PIECE 4096

struct difference {
	bool any;
	uint32_t first, end; /* offsets in the value */
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
	const char *why;
	uint32_t shown =
	    v->length - at < sizeof(x->recorded) ? v->length - at : (uint32_t)sizeof(x->recorded);

	/* A failed transfer explains the difference; the trace does not contradict itself. */
	if (sr_transfer_failed(&why) || atomic_fetch_add(&sr_group_control->mismatches, 1))
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

/* If several receives share memory, later messages may have overwritten any of its bytes. */
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

	/* The sender may not have posted the later messages yet. */
	sr_progress_until((uint32_t)c->key.from, is_in_later, &l);
	return is_in_later(&l);
}

/* These bytes differ from the message's: a READ of this process landed over them, or the trace contradicts itself. */
static bool is_fetched_over(const struct sr_value *v, struct difference d, uint64_t fetched_after)
{
	struct sr_value part = *v;
	const struct sr_fetch *f;

	part.addr += d.first;
	part.bytes += d.first;
	part.length = d.end - d.first;
	f = sr_fetch_over(fetched_after, part.addr, part.length);
	if (!f)
		return false;
	if (f->member < 0)
		sr_value_from_outside(&part);
	else
		sr_value_fetched(&part, (uint32_t)f->member, f->remote_addr + (part.addr - f->addr), &f->origin, UINT64_MAX);
	return true;
}

void sr_value_received(const struct sr_value *v, struct sr_group_channel *c,
		       const struct sr_group_message *m, uint32_t from, const struct sr_landing *landing)
{
	struct difference d = compare(v, c, m, from);
	enum sr_sharing sharing = d.any ? landing->sharing(landing->receives, v->addr, v->length) : SR_NOT_SHARED;

	if (!d.any || sharing == SR_SHARED_SHIFTED || (sharing == SR_SHARED_ALIKE && is_overwritten(v, c, m, from, d))) {
		report(v, 0, v->length, &m->origin, d.any ? SR_FOUND_SEVERAL : 0);
		return;
	}
	report(v, 0, d.first, &m->origin, 0);
	report(v, d.end, v->length - d.end, &m->origin, 0);
	if (is_fetched_over(v, d, landing->fetched_after))
		return;
	report(v, d.first, d.end - d.first, NULL, 0);
	contradict(v, c, m, from, d.first);
}

void sr_value_is_header(const struct sr_value *v, const struct sr_group_message *m)
{
	report(v, 0, v->length, &m->origin, 0);
}

void sr_value_produced(const struct sr_value *v, struct sr_group_channel *c,
		       const struct sr_group_message *m, uint32_t from)
{
	static uint8_t bytes[PIECE];

	for (uint32_t at = 0, n; at < v->length; at += n) {
		n = v->length - at < PIECE ? v->length - at : PIECE;
		sr_channel_bytes(c, m, from + at, bytes, n);
		sr_guarded_copy((uint8_t *)v->bytes + at, bytes, n);
	}
	report(v, 0, v->length, &m->origin, 0);
}

/* ------------------------------------------------------------------- memory */

static uint32_t to_page_end(uint64_t addr)
{
	return PAGE - (uint32_t)(addr % PAGE);
}

/*
 * Stores a sample in the group's memory and reports it as pending, with its place there.
 * producers.c resolves it when all ranks have ended.  Where its bytes are.
 */
static uint64_t put_off(const struct sr_value *v, uint32_t from, struct sr_group_sample *l,
		    const uint64_t *knows, const uint8_t *bytes, const uint8_t *before)
{
	struct sr_group_member *self = &sr_group_memory->member[sr_group_self];
	const size_t known = sr_group_memory->members * sizeof(*knows);
	const uint32_t n = l->bytes_at ? 0 : l->length;
	uint64_t place = atomic_fetch_add(&self->sampled, sizeof(*l) + known + (before ? 2 : 1) * (uint64_t)n);
	uint64_t at = sr_group_samples_at(sr_group_self) + place;
	struct sr_found_value f = {
	    .sn = v->t->sn,
	    .addr = v->addr + from,
	    .thread = v->t->number,
	    .fault = v->fault,
	    .length = l->length,
	    .producer = SR_RANK_OUTSIDE,
	    .producer_sn = place,
	    .flags = SR_FOUND_PENDING,
	};

	l->writes = sr_history_writes(sr_group_self);
	sr_group_write_pieces(
	    at,
	    (struct sr_piece[]){{l, sizeof(*l)}, {knows, (uint32_t)known}, {bytes, n}, {before, n}}, before ? 4 : 3);
	keep(&f);
	return place + sizeof(*l) + known;
}

void sr_value_fetched(const struct sr_value *v, uint32_t member, uint64_t remote_addr,
		      const struct sr_group_origin *request, uint64_t later)
{
	static uint8_t bytes[PAGE];
	uint64_t knows[SR_GROUP_MEMBERS], bytes_at;
	struct sr_group_sample l = {
	    .origin = *request,
	    .posted = sr_progress_now(v->t, knows).tick,
	    .cpu = sr_progress_seen(member),
	    .member = (int32_t)member,
	};

	for (uint32_t at = 0; at < v->length; at += l.length) {
		l.addr = remote_addr + at;
		l.length =
		    v->length - at < to_page_end(l.addr) ? v->length - at : to_page_end(l.addr);
		l.overlaid = sr_fetch_from(later, v->addr + at, l.length);
		sr_group_copy(bytes, v->bytes + at, l.length);
		l.bytes_at = sr_fetched_before(&l, bytes);
		bytes_at = put_off(v, at, &l, knows, bytes, NULL);
		if (!l.bytes_at)
			sr_fetched_note(&l, bytes_at);
	}
}

/* Called in the fault handler, which holds the lock of the exposed regions. */
void sr_value_seen(const struct sr_value *v)
{
	uint64_t knows[SR_GROUP_MEMBERS];
	struct sr_group_origin now = sr_progress_now(v->t, knows);
	struct sr_group_sample l = {
	    .origin = now,
	    .posted = now.tick,
	    .cpu = now,
	    .member = (int32_t)sr_group_self,
	    .seen = 1,
	    .overlaid = v->written ? SR_GROUP_OVERLAID_BY_CALL : sr_is_on_main_stack(v->addr),
	};

	for (uint32_t at = 0; at < v->length; at += l.length) {
		l.addr = v->addr + at;
		l.length =
		    v->length - at < to_page_end(l.addr) ? v->length - at : to_page_end(l.addr);
		put_off(v, at, &l, knows, v->bytes + at,
			sr_exposed_backing((void *)(uintptr_t)l.addr));
		sr_contents_given(l.addr, v->bytes + at, l.length);
	}
}
