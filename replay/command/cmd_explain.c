/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_explain.c: `sreplay explain`: the values that entered at a call, and where
 * each came from.
 *
 * Two passes over the traces.  The first finds the values of that call; the
 * second what was written over the same memory, before and since.  Where a replay
 * has compared bytes, its report decides; the traces alone have addresses, orders
 * and checksums.
 */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "replay/command/command.h"
#include "replay/analysis/plan/plan.h"
#include "replay/analysis/process/process.h"
#include "replay/analysis/log/sites.h"
#include "logd/base/checksum.h"
#include "logd/base/opcodes.h"

#define VALUES 256 /* of one call, that are told of */
#define WRITES 4   /* to one place, of each rank */
#define SHOWN  32  /* bytes */
#define MARGIN 64  /* bytes around a value, of which earlier values tell */

/* A pass ends here: all that was asked for is known. */
#define ENOUGH (-ECANCELED)

struct options {
	const char *dir;
	int32_t rank;
	uint32_t thread;
	uint64_t sn;
	bool has_place;
};

/* A request that wrote over a value's memory. */
struct written {
	struct sr_position at;
	uint64_t address, length, checksum;
	uint8_t opcode;
};

struct value {
	struct sr_value v;
	uint8_t *data, *before; /* before: what an earlier value had put there */
	bool *before_known;
	/*
	 * The memory that it was in, from MARGIN in front of it: zeros where no value tells,
	 * as memory mostly is that has just become an exposed region, whose contents are no value.
	 */
	uint8_t *image;
	uint64_t before_sn;
	struct sr_position *known;
	/* By rank, of the requests to where it was: the last ones in front, the first behind. */
	struct written *last, *since;
	size_t *last_n, *since_n;
};

struct explain {
	struct options o;
	struct sr_trace *t;
	struct sr_links links;
	size_t rank; /* index of the asked one */
	struct value values[VALUES];
	size_t values_n;
	bool too_many;
	bool reached; /* the first pass is at the call */
	struct sr_sites *sites;
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

/* ------------------------------------------------- first pass: the values */

static bool is_asked_for(const struct explain *x, const struct sr_value *v)
{
	return v->rank == x->rank && v->at.thread == x->o.thread && v->at.sn == x->o.sn;
}

static int keep_value(struct explain *x, const struct sr_value *v)
{
	struct value *k = &x->values[x->values_n];
	size_t n = x->links.ranks_n;

	if (x->values_n == VALUES) {
		x->too_many = true;
		return 0;
	}
	k->v = *v;
	k->data = malloc(v->length + 1);
	k->before = malloc(v->length + 1);
	k->before_known = calloc(v->length + 1, sizeof(bool));
	k->image = malloc(v->length + 2 * MARGIN);
	k->known = calloc(n + 1, sizeof(*k->known));
	k->last = calloc(n * WRITES + 1, sizeof(*k->last));
	k->since = calloc(n * WRITES + 1, sizeof(*k->since));
	k->last_n = calloc(n + 1, sizeof(size_t));
	k->since_n = calloc(n + 1, sizeof(size_t));
	x->values_n++;
	if (!k->data || !k->before || !k->before_known || !k->image || !k->known || !k->last ||
	    !k->since || !k->last_n || !k->since_n)
		return -ENOMEM;
	memcpy(k->data, v->data, v->length);
	memcpy(k->image + MARGIN, v->data, v->length);
	memcpy(k->known, v->known, n * sizeof(*k->known));
	return 0;
}

static int find_value(void *argument, const struct sr_value *v)
{
	struct explain *x = argument;

	if (is_asked_for(x, v)) {
		x->reached = true;
		return keep_value(x, v);
	}
	return x->reached && v->rank == x->rank ? ENOUGH : 0;
}

/* ------------------------------------- second pass: what was written there */

static bool overlap(uint64_t a, uint64_t n, uint64_t b, uint64_t m)
{
	return a < b + m && b < a + n;
}

/* Whose memory the value was in before, and where. */
static bool place_of(const struct value *k, size_t *memory, uint64_t *address)
{
	if (k->v.is_message)
		return false;
	*memory = k->v.is_exposed ? k->v.rank : k->v.from;
	*address = k->v.is_exposed ? k->v.address : k->v.remote;
	return true;
}


static void note_write(struct value *k, const struct sr_posted *p)
{
	const struct written w = {p->at, p->address, p->length, p->checksum, p->opcode};
	struct written *last = k->last + p->rank * WRITES, *since = k->since + p->rank * WRITES;
	bool before =
	    p->rank == k->v.rank ? p->at.step < k->v.at.step : p->at.step <= k->known[p->rank].step;

	if (before) {
		/* The newest first. */
		memmove(last + 1, last, (WRITES - 1) * sizeof(w));
		last[0] = w;
		k->last_n[p->rank]++;
	} else if (k->since_n[p->rank]++ < WRITES) {
		since[k->since_n[p->rank] - 1] = w;
	}
}

static int see_posted(void *argument, const struct sr_posted *p)
{
	struct explain *x = argument;
	size_t memory;
	uint64_t address;

	for (size_t i = 0; sr_op(p->opcode) & SR_OP_CHANGES && i < x->values_n; i++) {
		struct value *k = &x->values[i];

		if (place_of(k, &memory, &address) && p->to == memory &&
		    overlap(p->address, p->length, address, k->v.length))
			note_write(k, p);
	}
	return 0;
}

/* A byte of an earlier value: was it where this one is, or next to it? */
static void see_byte(struct value *k, uint64_t address, uint8_t byte, bool is_exposed)
{
	uint64_t at = address - k->v.address, in_image = at + MARGIN;

	if (at < k->v.length) {
		k->before[at] = byte;
		k->before_known[at] = true;
	} else if (is_exposed && k->v.is_exposed && in_image < k->v.length + 2 * MARGIN) {
		k->image[in_image] = byte;
	}
}

/* What an earlier value left in the same local memory. */
static int see_value(void *argument, const struct sr_value *v)
{
	struct explain *x = argument;

	for (size_t i = 0; v->rank == x->rank && i < x->values_n; i++) {
		struct value *k = &x->values[i];

		if (v->at.step >= k->v.at.step ||
		    !overlap(v->address, v->length, k->v.address - MARGIN,
			     k->v.length + 2 * MARGIN))
			continue;
		if (overlap(v->address, v->length, k->v.address, k->v.length))
			k->before_sn = v->at.sn;
		for (uint32_t b = 0; b < v->length; b++)
			see_byte(k, v->address + b, v->data[b], v->is_exposed);
	}
	return 0;
}

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

/*
 * Only a whole write, of one piece, has a checksum that can be computed again:
 * from the value, and from what is taken to have been around it: a checksum that
 * agrees proves that.
 */
static bool has_its_bytes(const struct value *k, uint64_t address, const struct written *w)
{
	uint64_t at = w->address - (address - MARGIN);

	if (!w->checksum || at > k->v.length + 2 * MARGIN ||
	    w->length > k->v.length + 2 * MARGIN - at)
		return false;
	return sr_checksum(k->image + at, w->length, 0) == w->checksum;
}

static size_t at_most(size_t n)
{
	return n < WRITES ? n : WRITES;
}

/* The first of these that wrote the value's bytes; n: none is known to have. */
static size_t matching(const struct value *k, const struct written *w, size_t n, uint64_t address)
{
	size_t i = 0;

	while (i < n && !has_its_bytes(k, address, &w[i]))
		i++;
	return i;
}

static void print_write(const struct explain *x, size_t rank, const struct written *w,
			const char *intro, const char *why)
{
	printf("    %s ", intro);
	print_call(x, x->links.ranks[rank].number, w->at.thread, w->at.sn);
	printf(": %s of %" PRIu64 " bytes at 0x%" PRIx64 "%s\n", opcode_name(w->opcode), w->length,
	       w->address, why);
}

/*
 * Of one rank's writes to that place: the one whose bytes they are, by its
 * checksum, or the others.  Where it is not known to be before (without clocks
 * nothing is), the first of those that may be.
 */
static void print_writes_of(const struct explain *x, const struct value *k, size_t rank,
			    uint64_t address, bool matched)
{
	const struct written *last = k->last + rank * WRITES, *since = k->since + rank * WRITES;
	size_t last_n = at_most(k->last_n[rank]), since_n = at_most(k->since_n[rank]);
	size_t before = matching(k, last, last_n, address);
	size_t meanwhile = before < last_n ? since_n : matching(k, since, since_n, address);

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

static void print_writes(const struct explain *x, const struct value *k)
{
	size_t memory, before = 0, more = 0;
	uint64_t address;

	if (!place_of(k, &memory, &address))
		return;
	for (size_t i = 0; i < x->links.ranks_n; i++) {
		print_writes_of(x, k, i, address, true);
		before += k->last_n[i];
		more += k->since_n[i] - at_most(k->since_n[i]);
	}
	for (size_t i = 0; i < x->links.ranks_n; i++)
		print_writes_of(x, k, i, address, false);
	if (!before && memory == SR_NO_RANK)
		printf("    that process was not recorded: who else wrote there is not known\n");
	else if (!before)
		printf("    no recorded rank is known to have written there before%s\n",
		       k->v.is_exposed ? "" : "; that process's own CPU may have");
	if (more)
		printf("    and %zu more times since\n", more);
}

static void print_unchanged(const struct value *k)
{
	uint32_t same = 0;

	for (uint32_t i = 0; i < k->v.length; i++)
		same += k->before_known[i] && k->before[i] == k->data[i];
	if (same)
		printf("    %u byte%s as the value of SN %" PRIu64 " had left them\n", same,
		       same == 1 ? " is" : "s are", k->before_sn);
}

/* What a replay has found by comparing bytes: of this value. */
static bool print_found(const struct explain *x, const struct value *k)
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

static void print_source(const struct explain *x, const struct value *k)
{
	if (k->v.is_message) {
		printf("    sent by ");
		print_call(x, x->links.ranks[k->v.from].number, k->v.sent.thread, k->v.sent.sn);
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
			printf("rank %d\n", x->links.ranks[k->v.from].number);
	} else if (!k->v.is_exposed) {
		printf("    from a sender that was not recorded, or is not known\n");
	}
}

static void print_load(const struct explain *x, const struct value *k)
{
	/* The instruction itself, not one that it returns to. */
	const char *words = sr_call_sites_address(x->sites, x->o.rank, k->v.site + 1);

	printf(", loaded behind it (fault %u)%s%s", k->v.at.fault, *words ? " at " : "", words);
}

static void print_value(const struct explain *x, const struct value *k)
{
	printf("  %u byte%s at 0x%" PRIx64, k->v.length, k->v.length == 1 ? "" : "s", k->v.address);
	if (k->v.at.fault)
		print_load(x, k);
	else if (k->v.is_exposed)
		printf(", found when it looked");
	printf(": ");
	print_bytes(k->data, k->v.length);
	putchar('\n');
	print_source(x, k);
	if (!print_found(x, k))
		print_writes(x, k);
	print_unchanged(k);
}

static void print_all(const struct explain *x)
{
	const char *call = sr_call_sites_call(x->sites, x->o.rank, x->o.thread, x->o.sn);

	if (!*call && !x->values_n) {
		printf("rank %d thread %u has no record of SN %" PRIu64
		       " (an idle poll that came again is recorded once)\n",
		       x->o.rank, x->o.thread, x->o.sn);
		return;
	}
	print_call(x, x->o.rank, x->o.thread, x->o.sn);
	putchar('\n');
	if (!x->values_n)
		printf("  no value of the network's entered here\n");
	for (size_t i = 0; i < x->values_n; i++)
		print_value(x, &x->values[i]);
	if (x->too_many)
		printf("  and more: only the first %d are told of\n", VALUES);
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

static int two_passes(struct explain *x, struct sr_error *err)
{
	const struct sr_process_hooks first = {.value = find_value, .argument = x};
	const struct sr_process_hooks second = {
	    .posted = see_posted, .value = see_value, .argument = x};
	bool *group = calloc(x->links.ranks_n + 1, sizeof(*group));
	struct sr_process_counts counts;
	int ret = group ? sr_process(x->t, &x->links, group, &first, &counts, err) : -ENOMEM;

	if ((!ret || ret == ENOUGH) && x->values_n)
		ret = sr_process(x->t, &x->links, group, &second, &counts, err);
	free(group);
	return ret == ENOUGH ? 0 : ret;
}

static int explain(struct explain *x)
{
	struct sr_plan *plan = NULL;
	struct sr_error err = {""};
	int ret = sr_links_find(&x->links, x->t, NULL, &err);

	if (!ret) {
		while (x->links.ranks[x->rank].number != x->o.rank)
			x->rank++;
		ret = two_passes(x, &err);
	}
	if (ret)
		return sr_fail("%s", err.text);
	/* Without a plan there was no replay that could have compared anything. */
	if (!sr_plan_open(&plan, x->t, &err))
		load_found(x, plan);
	x->sites = sr_call_sites_new(x->t);
	if (!x->sites)
		ret = sr_fail("no memory left");
	else
		print_all(x);
	sr_call_sites_free(x->sites);
	sr_plan_close(plan);
	return ret;
}

static void clean_up(struct explain *x)
{
	for (size_t i = 0; i < x->values_n; i++) {
		struct value *k = &x->values[i];

		free(k->data);
		free(k->before);
		free(k->before_known);
		free(k->image);
		free(k->known);
		free(k->last);
		free(k->since);
		free(k->last_n);
		free(k->since_n);
	}
	sr_links_free(&x->links);
	sr_trace_close(x->t);
	free(x);
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
	if (sr_trace_open(&x->t, x->o.dir, &err))
		status = sr_fail("%s", err.text);
	else if (!sr_trace_process(x->t, x->o.rank))
		status = sr_fail("%s has no rank %d", x->o.dir, x->o.rank);
	else
		status = explain(x);
	clean_up(x);
	return status;
}
