/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/info_data_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/decode.h"
#include "replay/command/encoded.h"
#include "replay/print/json.h"
#include "shim/core/call.h"

typedef unsigned long long ull;

struct sr_data_path {
	uint64_t requests, completions, values;
	struct sr_encoded *encoded;
	bool in_poll; /* a REPEAT belongs to the call in front of it */
};

struct sr_data_path *sr_data_path_new(const struct sr_trace *t, int32_t rank)
{
	struct sr_data_path *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->encoded = sr_encoded_new(t, rank);
	if (d->encoded)
		return d;
	free(d);
	return NULL;
}

void sr_data_path_free(struct sr_data_path *d)
{
	if (d)
		sr_encoded_free(d->encoded);
	free(d);
}

void sr_data_path_end_stream(struct sr_data_path *d)
{
	sr_encoded_end_stream(d->encoded);
}

static void count_polled(struct sr_data_path *d, const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	struct sr_log_polled polled;

	if (sr_log_get_polled_of(kinds, e, &polled))
		d->completions += polled.n;
}

/* The arguments of a call that posts a list begin with the queue and the list's length. */
static void count_posted(struct sr_data_path *d, const struct sr_entry *e)
{
	const size_t at = sizeof(struct sr_call_head) + sizeof(uint64_t);
	uint32_t n;

	if (e->size < at + sizeof(n))
		return;
	memcpy(&n, (const uint8_t *)e->payload + at, sizeof(n));
	d->requests += n;
}

static void count_values(struct sr_data_path *d, const struct sr_entry *e)
{
	struct sr_exposed_payload p;

	if (e->size < sizeof(p))
		return;
	memcpy(&p, e->payload, sizeof(p));
	d->values += p.values;
}

/* Does the record belong to the data path?  Counts its events. */
static bool take(struct sr_data_path *d, const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	enum sr_what what = sr_log_what(kinds, e->kind);

	if (e->kind >= SR_REC_CALL) {
		d->in_poll = what != SR_WHAT_NOTHING && what < SR_WHAT_DATA_PATH_END;
		if (what == SR_WHAT_POST_SEND || what == SR_WHAT_POST_RECV || what == SR_WHAT_POST_SRQ_RECV)
			count_posted(d, e);
		else if (what == SR_WHAT_BUILD_PLAIN || what == SR_WHAT_BUILD_REMOTE)
			d->requests++;
		else if (what == SR_WHAT_POLL || what == SR_WHAT_POLL_EX)
			count_polled(d, kinds, e);
		return d->in_poll;
	}
	if (e->kind == SR_REC_EXPOSED)
		count_values(d, e);
	return e->kind == SR_REC_EXPOSED || e->kind == SR_REC_CLOCK || e->kind == SR_REC_BEHIND || e->kind == SR_REC_CHECK ||
	       e->kind == SR_REC_PICKED || e->kind == SR_REC_CHANGED ||
	       (e->kind == SR_REC_REPEAT && d->in_poll);
}

void sr_data_path_add(struct sr_data_path *d, const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	if (take(d, kinds, e))
		sr_encoded_add(d->encoded, e);
}

uint64_t sr_data_path_events(const struct sr_data_path *d)
{
	return d->requests + d->completions + d->values;
}

void sr_data_path_print(const struct sr_data_path *d)
{
	uint64_t events = sr_data_path_events(d);

	if (events)
		printf("  data path: %llu requests, %llu completions, %llu values of exposed memory; %llu bytes on disk, %.2f for "
		       "each of these events\n",
		       (ull)d->requests, (ull)d->completions, (ull)d->values, (ull)sr_encoded_bytes(d->encoded),
		       (double)sr_encoded_bytes(d->encoded) / (double)events);
}

json_t *sr_data_path_json(const struct sr_data_path *d)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "requests", sr_json_count(d->requests), "completions",
			 sr_json_count(d->completions), "values", sr_json_count(d->values), "bytes_on_disk",
			 sr_json_count(sr_encoded_bytes(d->encoded)));
}
