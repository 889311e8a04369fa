/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/call_sites.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/schema.h"
#include "replay/analysis/log/symbols.h"
#include "shim/core/call.h"

struct known {
	int32_t rank;
	struct sr_schema *schema;
	struct sr_symbols *symbols;
	struct sr_stream *stream; /* of the last thread asked for */
	uint32_t thread;
};

struct sr_call_sites {
	struct sr_trace *trace;
	struct known *ranks;
	size_t n;
	char text[512];
};

struct sr_call_sites *sr_call_sites_new(struct sr_trace *t)
{
	struct sr_call_sites *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->trace = t;
	s->ranks = calloc(sr_trace_ranks(t) + 1, sizeof(*s->ranks));
	if (!s->ranks) {
		free(s);
		return NULL;
	}
	return s;
}

void sr_call_sites_free(struct sr_call_sites *s)
{
	for (size_t i = 0; s && i < s->n; i++) {
		sr_schema_free(s->ranks[i].schema);
		sr_symbols_free(s->ranks[i].symbols);
		sr_stream_close(s->ranks[i].stream);
	}
	if (s)
		free(s->ranks);
	free(s);
}

static struct known *rank_of(struct sr_call_sites *s, int32_t rank)
{
	const json_t *process = sr_trace_process(s->trace, rank);
	struct known *k;

	for (size_t i = 0; i < s->n; i++)
		if (s->ranks[i].rank == rank)
			return &s->ranks[i];
	if (!process)
		return NULL;
	k = &s->ranks[s->n++];
	*k = (struct known){.rank = rank,
			    .schema = sr_schema_of(s->trace, rank, NULL),
			    .symbols = sr_symbols_new(json_object_get(process, "objects"))};
	return k;
}

/* The call with this SN, or the one whose repeats include it. */
static bool find_call(struct sr_call_sites *s, struct known *k, uint32_t thread, uint64_t sn,
		      uint16_t *kind, uint64_t *site)
{
	struct sr_call_head head;
	struct sr_error err;
	struct sr_entry e;

	if (k->stream && k->thread != thread) {
		sr_stream_close(k->stream);
		k->stream = NULL;
	}
	if (!k->stream && sr_stream_open(&k->stream, s->trace, k->rank, thread, &err))
		return false;
	k->thread = thread;
	if (sr_stream_seek(k->stream, sn))
		return false;
	while (sr_stream_next(k->stream, &e) > 0) {
		if (e.kind < SR_REC_CALL)
			continue;
		if (e.sn != sn || e.size < sizeof(head))
			return false;
		memcpy(&head, e.payload, sizeof(head));
		*kind = e.kind;
		*site = head.site;
		return true;
	}
	return false;
}

void sr_call_sites_add(struct sr_call_sites *s, int32_t rank, const char *path, uint64_t begin, uint64_t end)
{
	struct known *k = rank_of(s, rank);
	char *directory, *whole = NULL;

	if (!k || !k->symbols)
		return;
	directory = sr_trace_bytes(json_object_get(sr_trace_process(s->trace, rank), "directory"), NULL);
	if (*path != '/' && directory && asprintf(&whole, "%s/%s", directory, path) < 0)
		whole = NULL;
	sr_symbols_add(k->symbols, whole ? whole : path, begin, end);
	free(whole);
	free(directory);
}

const char *sr_call_sites_address(struct sr_call_sites *s, int32_t rank, uint64_t return_address)
{
	struct known *k = rank_of(s, rank);

	return k && k->symbols ? sr_symbols_site(k->symbols, return_address) : "";
}

const char *sr_call_sites_call(struct sr_call_sites *s, int32_t rank, uint32_t thread, uint64_t sn)
{
	struct known *k = rank_of(s, rank);
	const char *place;
	uint64_t site;
	uint16_t kind;

	s->text[0] = '\0';
	if (!k || !k->schema || !find_call(s, k, thread, sn, &kind, &site))
		return s->text;
	place = sr_call_sites_address(s, rank, site);
	snprintf(s->text, sizeof(s->text), "%s%s%s", sr_schema_name(k->schema, kind),
		 *place ? " at " : "", place);
	return s->text;
}
