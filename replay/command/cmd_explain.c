/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_explain.c: `sreplay explain`: prints the values that entered at a call, and where each
 * came from.  If a replay has compared the bytes, its report decides; the traces alone have
 * only addresses, orders and checksums (analysis/explain.h).
 */
#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "replay/command/command.h"
#include "replay/analysis/explain.h"
#include "replay/analysis/plan/plan.h"
#include "replay/analysis/log/call_sites.h"

#define SHOWN  32  /* bytes */

struct options {
	const char *dir;
	int32_t rank;
	uint32_t thread;
	uint64_t sn;
	bool has_place;
};

struct explain {
	struct options o;
	struct sr_explanation e;
	struct sr_call_sites *sites;
	const struct sr_found_value *found;
	size_t found_n;
};

/* ----------------------------------------------------------------- options */

/* RANK:SN or RANK.THREAD:SN */
static bool parse_place(const char *text, struct options *o)
{
	char *end;
	unsigned long rank = strtoul(text, &end, 10), thread = 0;

	if (end == text || rank > INT32_MAX)
		return false;
	if (*end == '.') {
		text = end + 1;
		thread = strtoul(text, &end, 10);
		if (end == text || thread > UINT32_MAX)
			return false;
	}
	if (*end != ':')
		return false;
	text = end + 1;
	o->sn = strtoull(text, &end, 10);
	o->rank = (int32_t)rank;
	o->thread = (uint32_t)thread;
	return end != text && !*end && o->sn;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (!o->dir)
			o->dir = arg;
		else if (o->has_place)
			argp_usage(state);
		else if (parse_place(arg, o))
			o->has_place = true;
		else
			argp_error(state, "%s: expected RANK:SN or RANK.THREAD:SN", arg);
		return 0;
	case ARGP_KEY_END:
		if (!o->has_place)
			argp_usage(state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
    NULL,
    parse_option,
    "DIR.srec RANK[.THREAD]:SN",
    "Say of each value that entered a process at this call which rank of the recorded ones wrote "
    "it, where in its program, and what else was written there.",
    NULL,
    NULL,
    NULL,
};

/* ----------------------------------------------------------------- the words */

static void print_bytes(const uint8_t *p, uint32_t n)
{
	for (uint32_t i = 0; i < n && i < SHOWN; i++)
		printf("%02x", p[i]);
	if (n > SHOWN)
		printf("...");
	if (n == 8 || n == 4) {
		uint64_t number = 0;

		memcpy(&number, p, n);
		printf(" (0x%" PRIx64 ")", number);
	}
}

static void print_call(const struct explain *x, int32_t rank, uint32_t thread, uint64_t sn)
{
	const char *words = sr_call_sites_call(x->sites, rank, thread, sn);

	printf("rank %d", rank);
	if (thread)
		printf(" thread %u", thread);
	printf(" at SN %" PRIu64 "%s%s", sn, *words ? ", " : "", words);
}

static const char *opcode_name(uint8_t opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return "WRITE";
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return "compare and swap";
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return "fetch and add";
	default:
		return "atomic write";
	}
}

static void print_write(const struct explain *x, size_t rank, const struct sr_written *w,
			const char *intro, const char *why)
{
	printf("    %s ", intro);
	print_call(x, x->e.links.ranks[rank].number, w->at.thread, w->at.sn);
	printf(": %s of %" PRIu64 " bytes at 0x%" PRIx64 "%s\n", opcode_name(w->opcode), w->length,
	       w->address, why);
}

/*
 * Of one rank's writes to that place, prints the one whose bytes they are, by its checksum, or the
 * others.  If it is not known to be before (without clocks nothing is), prints the first of those
 * that may be.
 */
static void print_writes_of(const struct explain *x, const struct sr_explained *k, size_t rank,
			    uint64_t address, bool matched)
{
	const struct sr_written *last = k->last + rank * SR_WRITES_KEPT, *since = k->since + rank * SR_WRITES_KEPT;
	size_t last_n = sr_writes_kept(k->last_n[rank]), since_n = sr_writes_kept(k->since_n[rank]);
	size_t before = sr_writes_matching(k, last, last_n, address);
	size_t meanwhile = before < last_n ? since_n : sr_writes_matching(k, since, since_n, address);

	if (matched && before < last_n)
		print_write(x, rank, &last[before], "written by", ", by its checksum");
	if (matched && meanwhile < since_n)
		print_write(x, rank, &since[meanwhile], "written by",
			    ", by its checksum; not known to be before");
	for (size_t i = 0; !matched && i < last_n; i++)
		if (i != before)
			print_write(x, rank, &last[i], "written before by", "");
	for (size_t i = 0; !matched && i < since_n; i++)
		if (i != meanwhile)
			print_write(x, rank, &since[i], "written since, or meanwhile, by", "");
}

static void print_writes(const struct explain *x, const struct sr_explained *k)
{
	size_t memory, before = 0, more = 0;
	uint64_t address;

	if (!sr_explained_place(k, &memory, &address))
		return;
	for (size_t i = 0; i < x->e.links.ranks_n; i++) {
		print_writes_of(x, k, i, address, true);
		before += k->last_n[i];
		more += k->since_n[i] - sr_writes_kept(k->since_n[i]);
	}
	for (size_t i = 0; i < x->e.links.ranks_n; i++)
		print_writes_of(x, k, i, address, false);
	if (!before && memory == SR_NO_RANK)
		printf("    that process was not recorded: who else wrote there is not known\n");
	else if (!before)
		printf("    no recorded rank is known to have written there before%s\n",
		       k->v.is_exposed ? "" : "; that process's own CPU may have");
	if (more)
		printf("    and %zu more times since\n", more);
}

static void print_unchanged(const struct sr_explained *k)
{
	uint32_t same = 0;

	for (uint32_t i = 0; i < k->v.length; i++)
		same += k->before_known[i] && k->before[i] == k->data[i];
	if (same)
		printf("    %u byte%s as the value of SN %" PRIu64 " had left them\n", same,
		       same == 1 ? " is" : "s are", k->before_sn);
}

/* Prints what a replay found by comparing the bytes of this value. */
static bool print_found(const struct explain *x, const struct sr_explained *k)
{
	bool any = false;

	for (size_t i = 0; i < x->found_n; i++) {
		const struct sr_found_value *f = &x->found[i];

		if (f->sn != k->v.at.sn || f->thread != k->v.at.thread ||
		    f->fault != k->v.at.fault || f->addr < k->v.address ||
		    f->addr + f->length > k->v.address + k->v.length)
			continue;
		any = true;
		printf("    %u bytes at 0x%" PRIx64 ": ", f->length, f->addr);
		if (f->flags & SR_FOUND_UNCHANGED)
			printf("unchanged; last written by ");
		else if (f->producer >= 0)
			printf(f->flags & SR_FOUND_CPU ? "stored by the CPU of " : "written by ");
		if (f->producer >= 0)
			print_call(x, f->producer, f->producer_thread, f->producer_sn);
		else
			printf(f->flags & SR_FOUND_NOBODY ? "by nobody: no rank wrote them, and "
							    "nobody else can have"
							  : "from outside the group");
		printf(f->flags & SR_FOUND_SEVERAL ? " (others wrote the same)\n" : "\n");
	}
	return any;
}

static void print_source(const struct explain *x, const struct sr_explained *k)
{
	if (k->v.is_message) {
		printf("    sent by ");
		print_call(x, x->e.links.ranks[k->v.from].number, k->v.sent.thread, k->v.sent.sn);
		printf(", request %u, %" PRIu64 " bytes%s\n", k->v.request, k->v.message_length,
		       k->v.flags & SR_PLAN_AMBIGUOUS ? " (likeliest of several connections)" : "");
		return;
	}
	if (!k->v.is_exposed && k->v.sent.sn) {
		printf("    fetched by SN %" PRIu64 ", %s,\n      from 0x%" PRIx64 " of ",
		       k->v.sent.sn,
		       sr_call_sites_call(x->sites, x->o.rank, k->v.sent.thread, k->v.sent.sn),
		       k->v.remote);
		if (k->v.from == SR_NO_RANK)
			printf("a process that was not recorded\n");
		else
			printf("rank %d\n", x->e.links.ranks[k->v.from].number);
	} else if (!k->v.is_exposed) {
		printf("    from a sender that was not recorded, or is not known\n");
	}
}

static void print_load(const struct explain *x, const struct sr_explained *k)
{
	/* The site is the instruction itself, not a return address. */
	const char *words = sr_call_sites_address(x->sites, x->o.rank, k->v.site + 1);

	printf(", loaded after it (fault %u)%s%s", k->v.at.fault, *words ? " at " : "", words);
}

static void print_value(const struct explain *x, const struct sr_explained *k)
{
	printf("  %u byte%s at 0x%" PRIx64, k->v.length, k->v.length == 1 ? "" : "s", k->v.address);
	if (k->v.at.fault)
		print_load(x, k);
	else if (k->v.is_exposed)
		printf(", sampled at the call");
	printf(": ");
	print_bytes(k->data, k->v.length);
	putchar('\n');
	print_source(x, k);
	if (!print_found(x, k))
		print_writes(x, k);
	print_unchanged(k);
}

/* The exit status. */
static int print_all(const struct explain *x)
{
	const char *call = sr_call_sites_call(x->sites, x->o.rank, x->o.thread, x->o.sn);

	if (!*call && !x->e.values_n)
		return sr_fail("rank %d thread %u has no record of SN %" PRIu64
			       " (an idle poll that came again is recorded once)",
			       x->o.rank, x->o.thread, x->o.sn);
	print_call(x, x->o.rank, x->o.thread, x->o.sn);
	putchar('\n');
	if (!x->e.values_n)
		printf("  no value from the network entered here\n");
	for (size_t i = 0; i < x->e.values_n; i++)
		print_value(x, &x->e.values[i]);
	if (x->e.too_many)
		printf("  and more: only the first %d are shown\n", SR_VALUES_KEPT);
	return 0;
}

/* ----------------------------------------------------------------------- all */

static void load_found(struct explain *x, struct sr_plan *plan)
{
	const void *records;
	struct sr_error err;

	if (sr_plan_records(plan, SR_PLAN_FOUND, x->o.rank, 0, &records, &x->found_n, &err))
		sr_note("%s", err.text);
	x->found = records;
}

static int explain(struct explain *x)
{
	struct sr_plan *plan = NULL;
	struct sr_error err = {""};
	int status = 0;

	x->e.rank_number = x->o.rank;
	x->e.thread = x->o.thread;
	x->e.sn = x->o.sn;
	if (sr_explain(&x->e, &err))
		return sr_fail("%s", err.text);
	/* Without a plan there was no replay that could have compared anything. */
	if (!sr_plan_open(&plan, x->e.trace, &err))
		load_found(x, plan);
	x->sites = sr_call_sites_new(x->e.trace);
	if (!x->sites)
		status = sr_fail("no memory left");
	else
		status = print_all(x);
	sr_call_sites_free(x->sites);
	sr_plan_close(plan);
	return status;
}

int sr_cmd_explain(int argc, char **argv)
{
	struct explain *x = calloc(1, sizeof(*x));
	struct sr_error err;
	int status;

	if (!x)
		return sr_fail("no memory left");
	if (argp_parse(&argp, argc, argv, 0, NULL, &x->o)) {
		free(x);
		return SR_EXIT_FAILED;
	}
	if (sr_trace_open(&x->e.trace, x->o.dir, &err))
		status = sr_fail("%s", err.text);
	else if (!sr_trace_process(x->e.trace, x->o.rank))
		status = sr_fail("%s has no rank %d", x->o.dir, x->o.rank);
	else
		status = explain(x);
	sr_explain_free(&x->e);
	sr_trace_close(x->e.trace);
	free(x);
	return status;
}
