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

static void report(const struct sr_value *v, uint32_t from, uint32_t length,
		   const struct sr_group_origin *o, uint16_t flags)
{
	struct sr_plan_found f = {
	    .sn = v->t->sn,
	    .addr = v->addr + from,
	    .thread = v->t->number,
	    .length = length,
	    .producer = SR_PLAN_OUTSIDE,
	    .flags = flags,
	};
	_Atomic uint64_t *bytes =
	    o ? &sr_group_control->found_inside : &sr_group_control->found_outside;

	if (!length)
		return;
	if (o) {
		f.producer = sr_group_memory->member[o->member].rank;
		f.producer_thread = o->thread;
		f.producer_sn = o->sn;
		f.request = (uint16_t)o->request;
	}
	atomic_fetch_add(bytes, length);
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
	static uint8_t sent[PIECE];
	struct difference d = {.any = false};

	for (uint32_t at = 0; at < v->length;) {
		uint32_t n = v->length - at < PIECE ? v->length - at : PIECE;

		memset(sent, 0, n);
		sr_channel_bytes(c, m, from + at, sent, n);
		for (uint32_t i = 0; memcmp(sent, v->bytes + at, n) && i < n; i++) {
			if (sent[i] == v->bytes[at + i])
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
	memcpy(x->recorded, v->bytes + at, shown);
	sr_channel_bytes(c, m, from + at, x->produced, shown);
}

void sr_value_received(const struct sr_value *v, struct sr_group_channel *c,
		       const struct sr_group_message *m, uint32_t from, bool shared)
{
	struct difference d = compare(v, c, m, from);

	if (!d.any || shared) {
		report(v, 0, v->length, &m->origin, d.any ? SR_FOUND_SEVERAL : 0);
		return;
	}
	report(v, 0, d.first, &m->origin, 0);
	report(v, d.first, d.end - d.first, NULL, 0);
	report(v, d.end, v->length - d.end, &m->origin, 0);
	contradict(v, c, m, from, d.first);
}

/* ------------------------------------------------------------------ fetches */

#define FROM_CPU (-2)

/* A look into a member's own memory. */
struct look {
	uint32_t member;
	uint64_t addr;
	const uint8_t *bytes;
	uint32_t n;
	int8_t *who;
};

/* Bytes that nobody was found for, and that are what its memory holds.  Are all found then? */
static bool look(void *argument)
{
	static uint8_t there[SR_HISTORY_PIECE];
	struct look *l = argument;
	struct iovec local = {there, l->n}, remote = {(void *)(uintptr_t)l->addr, l->n};
	int32_t process = atomic_load(&sr_group_memory->member[l->member].process);
	bool read = process && sr_syscall(SYS_process_vm_readv, process, SR_ARG(&local), 1,
					  SR_ARG(&remote), 1, 0) == (long)l->n;
	bool all = true;

	for (uint32_t i = 0; i < l->n; i++) {
		if (read && l->who[i] == -1 && there[i] == l->bytes[i])
			l->who[i] = FROM_CPU;
		all = all && l->who[i] != -1;
	}
	return all;
}

/* Runs of bytes with the same producer. */
static void report_runs(const struct sr_value *v, uint32_t from, uint32_t n, const int8_t *who,
			const struct sr_group_origin *origins, const struct sr_group_origin *cpu)
{
	for (uint32_t at = 0; at < n;) {
		uint32_t end = at + 1;

		while (end < n && who[end] == who[at])
			end++;
		if (who[at] == FROM_CPU)
			report(v, from + at, end - at, cpu, SR_FOUND_CPU);
		else
			report(v, from + at, end - at, who[at] < 0 ? NULL : &origins[who[at]], 0);
		at = end;
	}
}

void sr_value_fetched(const struct sr_value *v, uint32_t member, uint64_t remote_addr,
		      uint64_t tick)
{
	static struct sr_group_origin origins[SR_HISTORY_ORIGINS];
	static int8_t who[SR_HISTORY_PIECE];
	struct sr_group_origin cpu = sr_progress_seen(member);

	for (uint32_t at = 0; at < v->length;) {
		uint32_t n =
		    v->length - at < SR_HISTORY_PIECE ? v->length - at : SR_HISTORY_PIECE;

		sr_history_match(member, remote_addr + at, v->bytes + at, n, tick, who, origins);
		/* It may be behind: nothing says how far it had come when this was READ. */
		sr_progress_until(member, look, &(struct look){member, remote_addr + at,
							       v->bytes + at, n, who});
		report_runs(v, at, n, who, origins, &cpu);
		at += n;
	}
}
