/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/verdict/words.h"

#include <stdio.h>

#include "replay/host/stuck.h"
#include "replay/host/verdict/verdict.h"

typedef unsigned long long ull;

/* Records that are no calls, as an event of the program. */
static const struct {
	uint16_t kind;
	const char *name;
} events[] = {
    {SR_REC_HEAP, "a heap operation"},
    {SR_REC_EXPOSED, "a load from an exposed region"},
    {SR_REC_REGION, "a registration"},
    {SR_REC_SIGNAL, "a signal's handler"},
    {SR_REC_RUN_TOKEN, "a switch to another thread"},
    {SR_REC_EXEC, "exec"},
    {SR_REC_CHECK, "a sum of checksums"},
    {SR_REC_EXIT, "the end of the process"},
    {SR_REC_EXIT_BEGINS, "exit"},
};

const char *sr_verdict_name(const struct sr_verdict *v, uint16_t kind)
{
	for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++)
		if (events[i].kind == kind)
			return events[i].name;
	return v->with.schema ? sr_schema_name(v->with.schema, kind) : "a call";
}

/* "rank 0 thread 0 SN 42: " */
void sr_verdict_where(const struct sr_verdict *v, const struct sr_replay_report *r)
{
	fprintf(stderr, "sreplay: rank %s thread %u SN %llu: ", sr_verdict_rank(v), r->thread, (ull)r->sn);
}

void sr_verdict_last_calls(const struct sr_verdict *v, const struct sr_replay_report *r)
{
	fprintf(stderr, "sreplay: the last calls of thread %u:\n", r->thread);
	sr_say_calls_before(v->trace, v->rank, r->thread, r->sn, &v->with);
}

void sr_verdict_bytes(const char *what, const uint8_t *bytes, uint32_t n)
{
	fprintf(stderr, "sreplay:   %s", what);
	for (uint32_t i = 0; i < n; i++)
		fprintf(stderr, " %02x", bytes[i]);
	fputc('\n', stderr);
}

void sr_verdict_place(const struct sr_verdict *v, const char *what, uint64_t site, uint64_t address,
		      uint16_t kind)
{
	fprintf(stderr, "sreplay:   %s ", what);
	if (address)
		fprintf(stderr, "load of 0x%llx ", (ull)address);
	else
		fprintf(stderr, "%s ", kind ? sr_verdict_name(v, kind) : "the end");
	if (site)
		sr_print_site(stderr, &v->with, site);
	fputc('\n', stderr);
}
