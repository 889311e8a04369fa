/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/classify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nicclock/clock.h"
#include "logd/base/checksum.h"
#include "logd/trace/left_out.h"

/* More pieces of one poll are ignored. */
#define SEEN_MAX 256

struct sent {
	uint64_t checksum, event;
};

struct sent_list {
	struct sent *list;
	size_t count, room;
};

struct sr_classify {
	struct sent_list of[SR_CLOCK_MEMBERS];
	uint64_t seen[SEEN_MAX];
	size_t seen_n;
};

struct sr_classify *sr_classify_new(void)
{
	return calloc(1, sizeof(struct sr_classify));
}

void sr_classify_free(struct sr_classify *s)
{
	for (int i = 0; s && i < SR_CLOCK_MEMBERS; i++)
		free(s->of[i].list);
	free(s);
}

static int add(struct sent_list *l, uint64_t checksum, uint64_t event)
{
	if (!checksum)
		return 0; /* nothing was sent, or from memory that the CPU cannot read */
	if (l->count == l->room) {
		size_t room = l->room ? 2 * l->room : 256;
		struct sent *more = realloc(l->list, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		l->list = more;
		l->room = room;
	}
	l->list[l->count++] = (struct sent){checksum, event};
	return 0;
}

static uint64_t checksum_in(const json_t *object)
{
	const char *text = json_string_value(json_object_get(object, "checksum"));

	return text ? strtoull(text, NULL, 16) : 0;
}

static bool sends(const char *name)
{
	return !strcmp(name, "post_send") || !strncmp(name, "wr_set_inline_data", 18);
}

int sr_classify_sent(struct sr_classify *s, const struct sr_schema *schema, int member, uint64_t event,
		   const struct sr_entry *e)
{
	struct sent_list *l = &s->of[member];
	const json_t *in, *list;
	json_t *call, *wr;
	size_t i;
	int err = 0;

	if (!sends(sr_schema_name(schema, e->kind)))
		return 0;
	call = sr_schema_decode(schema, e->kind, e->payload, e->size);
	in = json_object_get(call, "in");
	list = json_object_get(in, "wr");
	json_array_foreach(list, i, wr) if (!err) err = add(l, checksum_in(wr), event);
	if (!err)
		err = add(l, checksum_in(in), event);
	json_decref(call);
	return err;
}

static int by_checksum(const void *a, const void *b)
{
	const struct sent *x = a, *y = b;

	if (x->checksum != y->checksum)
		return x->checksum < y->checksum ? -1 : 1;
	return x->event < y->event ? -1 : x->event > y->event;
}

void sr_classify_all_sent(struct sr_classify *s)
{
	for (int i = 0; i < SR_CLOCK_MEMBERS; i++)
		if (s->of[i].count)
			qsort(s->of[i].list, s->of[i].count, sizeof(struct sent), by_checksum);
}

static bool is_left_out(const json_t *piece)
{
	const char *address = json_string_value(json_object_get(piece, "addr"));

	return address && strtoull(address, NULL, 16) & SR_LEFT_OUT;
}

static void see(struct sr_classify *s, const json_t *piece)
{
	struct sr_left_out l;
	size_t size;
	char *bytes = sr_trace_bytes(json_object_get(piece, "data"), &size);

	if (bytes && size && s->seen_n < SEEN_MAX)
		s->seen[s->seen_n++] = sr_checksum(bytes, size, 0);
	if (bytes && s->seen_n && is_left_out(piece) && sr_left_out_get(&l, bytes, size) && l.mask == UINT64_MAX)
		s->seen[s->seen_n - 1] = l.checksum;
	free(bytes);
}

static bool receives(const char *name)
{
	return !strcmp(name, "poll_cq") || !strcmp(name, "start_poll") ||
	       !strcmp(name, "next_poll");
}

bool sr_classify_seen(struct sr_classify *s, const struct sr_schema *schema, const struct sr_entry *e)
{
	json_t *call, *piece;
	size_t i;

	s->seen_n = 0;
	if (!receives(sr_schema_name(schema, e->kind)))
		return false;
	call = sr_schema_decode(schema, e->kind, e->payload, e->size);
	json_array_foreach(json_object_get(json_object_get(call, "out"), "arrived"), i, piece)
	    see(s, piece);
	json_decref(call);
	return s->seen_n;
}

/* The last event up to `last` at which these bytes were sent. */
static uint64_t find(const struct sent_list *l, uint64_t checksum, uint64_t last)
{
	const struct sent wanted = {checksum, last};
	size_t low = 0, high = l->count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (by_checksum(&l->list[middle], &wanted) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low && l->list[low - 1].checksum == checksum ? l->list[low - 1].event : 0;
}

uint64_t sr_classify_event(const struct sr_classify *s, int member, uint64_t last)
{
	uint64_t event = 0;

	for (size_t i = 0; i < s->seen_n; i++) {
		uint64_t one = find(&s->of[member], s->seen[i], last);

		if (one > event)
			event = one;
	}
	return event;
}
