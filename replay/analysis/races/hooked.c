/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/hooked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shim/access/access.h"
#include "logd/trace/read_trace.h"
#include "replay/analysis/log/decode.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/schema.h"

/* Instructions whose last load is remembered, by hash. */
#define LOADERS 1024

/* One thread's stream. */
struct hooked {
	struct sr_race_watches *s;
	const struct sr_log_kinds *kinds;
	uint32_t rank, thread;
	bool any;
	bool pauses[SR_LOG_CALLS]; /* by kind - SR_REC_CALL */
	uint64_t *brought; /* ascending: calls since the last list that brought something */
	size_t brought_n, brought_room;
	struct {
		uint64_t pc, address, sn;
	} last[LOADERS];
};

/* ---------------------------------------------------------------- who waits */

static bool has_brought(const struct hooked *h, uint64_t after, uint64_t until)
{
	size_t low = 0, high = h->brought_n;

	while (low < high) {
		const size_t middle = (low + high) / 2;

		if (h->brought[middle] <= after)
			low = middle + 1;
		else
			high = middle;
	}
	return low < h->brought_n && h->brought[low] <= until;
}

/* The instruction loads the same again, and has loaded nothing else; polls in between have found nothing. */
static bool is_poll(struct hooked *h, const struct sr_hooked_access *a)
{
	const size_t at = a->pc * 0x9e3779b97f4a7c15ull >> 54;
	const bool again = h->last[at].pc == a->pc && h->last[at].address == a->address && !has_brought(h, h->last[at].sn, a->sn);

	h->last[at].pc = a->pc;
	h->last[at].address = a->address;
	h->last[at].sn = a->sn;
	return again && a->length == a->width; /* who goes through many words twice does not wait */
}

static void find_pauses(struct hooked *h, const struct sr_schema *schema)
{
	for (unsigned int n = 0; n < SR_LOG_CALLS; n++)
		h->pauses[n] = sr_schema_pauses(schema, (uint16_t)(SR_REC_CALL + n));
}

static int note_call(struct hooked *h, const struct sr_entry *e)
{
	struct sr_log_polled found;
	uint64_t *at;

	if (e->kind - SR_REC_CALL < SR_LOG_CALLS && h->pauses[e->kind - SR_REC_CALL])
		return 0;
	if (sr_log_what(h->kinds, e->kind) == SR_WHAT_POLL && !sr_log_get_polled_of(h->kinds, e, &found))
		return 0;
	at = sr_grow((void **)&h->brought, h->brought_n, &h->brought_room, sizeof(*at));
	if (!at)
		return -ENOMEM;
	*at = e->sn + (e->count ? e->count - 1 : 0) * e->stride;
	h->brought_n++;
	return 0;
}

/* ---------------------------------------------------------------- the lists */

/* Words that are together in a list are looked at one by one where there are gaps or few of them: each may be a flag. */
#define FEW_BYTES 64

static int take_access(struct hooked *h, const struct sr_hooked_access *a, uint32_t faults)
{
	const bool are_few = a->width && (a->stride || a->length <= FEW_BYTES);
	uint32_t step = a->length;
	struct sr_watch_access found = {.sn = a->sn,
					      .address = a->address,
					      .pc = a->pc,
					      .thread = h->thread,
					      .length = a->length,
					      .fault = faults,
					      .kind = a->kind == SR_HOOKED_STORE ? SR_WATCH_STORE : SR_WATCH_LOAD};

	if (a->kind == SR_HOOKED_POLL || (a->kind == SR_HOOKED_LOAD && is_poll(h, a)))
		if (sr_keymap_put(&h->s->polls, a->pc, 1))
			return -ENOMEM;
	if (a->kind == SR_HOOKED_POLL)
		return 0;
	if (are_few) {
		found.length = a->width;
		step = a->stride ? a->stride : a->width;
	}
	for (; found.address < a->address + a->length; found.address += step)
		if (sr_race_watches_keep(h->s, h->rank, &found))
			return -ENOMEM;
	return 0;
}

static int take_list(struct hooked *h, const struct sr_log_accesses *list)
{
	int err = 0;

	h->any = true;
	for (uint32_t i = 0; i < list->n && !err; i++) {
		struct sr_hooked_access a;
		uint32_t faults;

		memcpy(&a, list->list + i * sizeof(a), sizeof(a));
		memcpy(&faults, list->faults + i * sizeof(faults), sizeof(faults));
		err = take_access(h, &a, faults);
	}
	h->brought_n = 0;
	return err;
}

static int take_entry(struct hooked *h, const struct sr_entry *e)
{
	struct sr_log_accesses list;

	if (e->kind < SR_REC_CALL)
		return 0;
	return sr_log_get_accesses_of(h->kinds, e, &list) ? take_list(h, &list) : note_call(h, e);
}

static int read_thread(struct hooked *h, struct sr_trace *t, int32_t number, struct sr_error *err)
{
	struct sr_stream *stream;
	struct sr_entry e;
	int ret = sr_stream_open(&stream, t, number, h->thread, err);

	if (ret)
		return ret;
	memset(h->last, 0, sizeof(h->last));
	h->brought_n = 0;
	while (!ret && sr_stream_next(stream, &e) > 0)
		if (take_entry(h, &e))
			ret = sr_error_set(err, -ENOMEM, "no memory left");
	sr_stream_close(stream);
	return ret;
}

static int read_rank(struct hooked *h, struct sr_trace *t, int32_t number, struct sr_error *err)
{
	const uint32_t *threads;
	const size_t n = sr_trace_threads(t, number, &threads);
	struct sr_schema *schema = sr_schema_of(t, number, err);
	struct sr_log_kinds kinds;
	int ret = schema ? sr_log_kinds_load(&kinds, t, number, err) : -EBADMSG;

	h->any = false;
	h->kinds = &kinds;
	if (schema)
		find_pauses(h, schema);
	sr_schema_free(schema);
	for (size_t i = 0; i < n && !ret; i++) {
		h->thread = threads[i];
		ret = read_thread(h, t, number, err);
	}
	return ret;
}

int sr_race_watches_hooked(struct sr_race_watches *s, struct sr_trace *t, const struct sr_links *links, size_t *ranks, struct sr_error *err)
{
	struct hooked *h = calloc(1, sizeof(*h));
	int ret = 0;

	*s = (struct sr_race_watches){.doubts = calloc(links->ranks_n + 1, sizeof(*s->doubts)), .are_partial = true};
	*ranks = 0;
	if (!h || !s->doubts)
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	for (size_t i = 0; i < links->ranks_n && !ret; i++) {
		h->s = s;
		h->rank = (uint32_t)i;
		ret = read_rank(h, t, links->ranks[i].number, err);
		*ranks += h->any;
		/* As with a replay that failed, what its CPU loads is what was recorded. */
		s->doubts[i] = h->any ? 0 : SR_DOUBT_REPLAY;
	}
	if (h)
		free(h->brought);
	free(h);
	if (!ret && sr_race_watches_sort(s))
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	return ret;
}
