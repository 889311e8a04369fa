/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/explained.h"

#include <inttypes.h>
#include <string.h>

#include <infiniband/verbs.h>

#define SHOWN 32 /* bytes */

static void print_bytes(FILE *out, const uint8_t *p, uint32_t n)
{
	for (uint32_t i = 0; i < n && i < SHOWN; i++)
		fprintf(out, "%02x", p[i]);
	if (n > SHOWN)
		fprintf(out, "...");
	if (n == 8 || n == 4) {
		uint64_t number = 0;

		memcpy(&number, p, n);
		fprintf(out, " (0x%" PRIx64 ")", number);
	}
}

static void print_call(const struct sr_explained_words *x, const char *when, int32_t rank, uint32_t thread,
		       uint64_t sn)
{
	const char *words = x->call(x->argument, rank, thread, sn);

	fprintf(x->out, "rank %s", sr_links_name(x->links, rank));
	if (thread)
		fprintf(x->out, " thread %u", thread);
	fprintf(x->out, " %s SN %" PRIu64 "%s%s", when, sn, *words ? ", " : "", words);
}

void sr_explained_print_call(const struct sr_explained_words *x, int32_t rank, uint32_t thread,
			     uint64_t sn)
{
	print_call(x, "at", rank, thread, sn);
}

const char *sr_explained_opcode(uint8_t opcode)
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

static void print_write(const struct sr_explained_words *x, size_t rank, const struct sr_written *w,
			const char *intro, const char *why)
{
	fprintf(x->out, "    %s ", intro);
	sr_explained_print_call(x, x->links->ranks[rank].number, w->at.thread, w->at.sn);
	fprintf(x->out, ": %s of %" PRIu64 " bytes at 0x%" PRIx64 "%s\n", sr_explained_opcode(w->opcode),
		w->length, w->address, why);
}

/*
 * Of one rank's writes to that place, prints the one whose bytes they are, by its checksum, or the
 * others.  If it is not known to be before (without clocks nothing is), prints the first of those
 * that may be.
 */
static void print_writes_of(const struct sr_explained_words *x, const struct sr_explained *k,
			    size_t rank, uint64_t address, bool matched)
{
	const struct sr_written *last = k->last + rank * SR_WRITES_KEPT,
				*since = k->since + rank * SR_WRITES_KEPT;
	size_t last_n = sr_writes_kept(k->last_n[rank]), since_n = sr_writes_kept(k->since_n[rank]);
	size_t before = sr_writes_matching(k, last, last_n, address);
	size_t meanwhile =
	    before < last_n ? since_n : sr_writes_matching(k, since, since_n, address);

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

static void print_writes(const struct sr_explained_words *x, const struct sr_explained *k)
{
	size_t memory, before = 0, more = 0;
	uint64_t address;

	if (!sr_explained_place(k, &memory, &address))
		return;
	for (size_t i = 0; i < x->links->ranks_n; i++) {
		print_writes_of(x, k, i, address, true);
		before += k->last_n[i];
		more += k->since_n[i] - sr_writes_kept(k->since_n[i]);
	}
	for (size_t i = 0; i < x->links->ranks_n; i++)
		print_writes_of(x, k, i, address, false);
	if (!before && memory == SR_NO_RANK)
		fprintf(x->out,
			"    that process was not recorded: who else wrote there is not known\n");
	else if (!before)
		fprintf(x->out, "    no recorded rank is known to have written there before%s\n",
			k->v.is_exposed ? "" : "; that process's own CPU may have");
	if (more)
		fprintf(x->out, "    and %zu more times since\n", more);
}

static void print_unchanged(FILE *out, const struct sr_explained *k)
{
	uint32_t same = 0;

	for (uint32_t i = 0; i < k->v.length; i++)
		same += k->before_known[i] && k->before[i] == k->data[i];
	if (same)
		fprintf(out, "    %u byte%s as the value of SN %" PRIu64 " had left them\n",
			same, same == 1 ? " is" : "s are", k->before_sn);
}

bool sr_explained_is_of(const struct sr_explained *k, const struct sr_found_value *f)
{
	return f->sn == k->v.at.sn && f->thread == k->v.at.thread && f->fault == k->v.at.fault &&
	       f->addr >= k->v.address && f->addr + f->length <= k->v.address + k->v.length;
}

/* Prints what a replay found by comparing the bytes of this value. */
static bool print_found(const struct sr_explained_words *x, const struct sr_explained *k)
{
	bool any = false;

	for (size_t i = 0; i < x->found_n; i++) {
		const struct sr_found_value *f = &x->found[i];

		if (!sr_explained_is_of(k, f))
			continue;
		any = true;
		fprintf(x->out, "    %u bytes at 0x%" PRIx64 ": ", f->length, f->addr);
		if (f->producer >= 0) {
			fprintf(x->out,
				f->flags & SR_FOUND_CPU ? "stored by the CPU of " : "written by ");
			print_call(x, f->flags & SR_FOUND_CPU ? "after" : "at", f->producer, f->producer_thread,
				   f->producer_sn);
		} else
			fprintf(x->out, f->flags & SR_FOUND_UNCHANGED
					    ? "unchanged: they were there before"
				: f->flags & SR_FOUND_NOBODY
					    ? "by nobody: no rank wrote them, and "
					      "nobody else can have"
				: f->flags & SR_FOUND_SHARED
					    ? "through memory shared with other processes: no rank "
					      "of the group is known to have stored them"
					    : "from outside the group");
		fprintf(x->out, f->flags & SR_FOUND_SEVERAL ? " (others wrote the same)\n" : "\n");
	}
	return any;
}

static void print_source(const struct sr_explained_words *x, const struct sr_explained *k)
{
	if (k->v.is_message) {
		fprintf(x->out, "    sent by ");
		sr_explained_print_call(x, x->links->ranks[k->v.from].number, k->v.sent.thread,
					k->v.sent.sn);
		fprintf(x->out, ", request %u, %" PRIu64 " bytes%s\n", k->v.request,
			k->v.message_length,
			k->v.flags & SR_PLAN_AMBIGUOUS ? " (likeliest of several connections)"
						       : "");
		return;
	}
	if (!k->v.is_exposed && k->v.sent.sn) {
		fprintf(x->out, "    fetched by SN %" PRIu64 ", %s,\n      from 0x%" PRIx64 " of ",
			k->v.sent.sn, x->call(x->argument, x->rank, k->v.sent.thread, k->v.sent.sn),
			k->v.remote);
		if (k->v.from == SR_NO_RANK)
			fprintf(x->out, "a process that was not recorded\n");
		else
			fprintf(x->out, "rank %s\n", x->links->ranks[k->v.from].name);
	} else if (!k->v.is_exposed) {
		fprintf(x->out, "    from a sender that was not recorded, or is not known\n");
	}
}

static void print_load(const struct sr_explained_words *x, const struct sr_explained *k)
{
	/* The site is the instruction itself, not a return address. */
	const char *words = x->address(x->argument, x->rank, k->v.site + 1);

	fprintf(x->out, ", loaded after it (fault %u)%s%s", k->v.at.fault, *words ? " at " : "",
		words);
}

void sr_explained_print(const struct sr_explained_words *x, const struct sr_explained *k)
{
	fprintf(x->out, "  %u byte%s at 0x%" PRIx64, k->v.length, k->v.length == 1 ? "" : "s",
		k->v.address);
	if (k->v.at.fault)
		print_load(x, k);
	else if (k->v.is_exposed)
		fprintf(x->out, ", sampled at the call");
	fprintf(x->out, ": ");
	print_bytes(x->out, k->data, k->v.length);
	putc('\n', x->out);
	print_source(x, k);
	if (!print_found(x, k))
		print_writes(x, k);
	print_unchanged(x->out, k);
}
