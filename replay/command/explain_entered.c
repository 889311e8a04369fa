/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain_entered.c: bytes that were read from a socket or pipe are looked for among what the ranks of
 * the trace wrote to the other end: at the same place of the stream, and with the same bytes as far as
 * the trace has them.
 */
#include "replay/command/explain_entered.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/channels.h"
#include "replay/command/command.h"
#include "replay/print/json.h"

#define MOST_WRITES 8 /* that are shown */

/* A write to the other end. */
struct write {
	int32_t rank;
	uint32_t thread;
	uint64_t sn;
	int fd;
	uint64_t first, last, bytes; /* which of its bytes, of how many */
};

struct search {
	const struct sr_trace *trace;
	/* The read that is explained. */
	uint32_t thread;
	uint64_t sn;
	int32_t rank;
	bool found;
	struct sr_channel channel;
	int fd;
	uint64_t bytes;
	char *data;
	size_t data_n;
	/* The first writes, and the number of all. */
	struct write shown[MOST_WRITES];
	size_t writes;
	struct sr_channel first; /* what the first one went to, of this rank */
	int32_t first_rank;
	bool several; /* another one went to another channel */
};

static bool find_read(void *argument, const struct sr_channel_use *u)
{
	struct search *s = argument;

	if (u->thread != s->thread || u->sn != s->sn || u->is_write)
		return true;
	s->found = true;
	s->channel = *u->channel;
	s->fd = u->fd;
	s->bytes = u->bytes;
	s->data = malloc(u->data_n + 1);
	s->data_n = s->data ? u->data_n : 0;
	if (s->data_n)
		memcpy(s->data, u->data, u->data_n);
	return false;
}

/* Bytes of both that lie at the same place of the stream; skip: of the write, before the read begins. */
static bool same_bytes(const struct search *s, const struct sr_channel_use *u)
{
	uint64_t read_at = s->channel.received, wrote_at = u->channel->sent;
	uint64_t from = read_at > wrote_at ? read_at : wrote_at;

	for (uint64_t at = from; at - read_at < s->data_n && at - wrote_at < u->data_n; at++)
		if (s->data[at - read_at] != u->data[at - wrote_at])
			return false;
	return true;
}

static bool find_write(void *argument, const struct sr_channel_use *u)
{
	struct search *s = argument;
	uint64_t read_at = s->channel.received, wrote_at = u->channel->sent;

	if (!u->is_write || !u->bytes || wrote_at >= read_at + s->bytes ||
	    read_at >= wrote_at + u->bytes ||
	    !sr_channels_are_linked(&s->channel, s->rank, u->channel, u->rank) || !same_bytes(s, u))
		return true;
	if (!s->writes) {
		s->first = *u->channel;
		s->first_rank = u->rank;
	}
	s->several |= s->first_rank != u->rank || s->first.sn != u->channel->sn ||
		      s->first.thread != u->channel->thread;
	if (s->writes++ < MOST_WRITES)
		s->shown[s->writes - 1] = (struct write){
		    .rank = u->rank,
		    .thread = u->thread,
		    .sn = u->sn,
		    .fd = u->fd,
		    .first = read_at > wrote_at ? read_at - wrote_at : 0,
		    .last = (read_at + s->bytes < wrote_at + u->bytes ? read_at + s->bytes - wrote_at
								      : u->bytes) - 1,
		    .bytes = u->bytes,
		};
	return true;
}

static void print_channel(const struct sr_channel *c)
{
	if (!strcmp(c->what, "file"))
		printf(", %s", c->path);
	else if (c->what[0])
		printf(", a %s", c->what);
	if (c->peer[0])
		printf(" connected to %s", c->peer);
	if (c->what[0])
		printf(" (SN %" PRIu64 " of thread %u)", c->sn, c->thread);
}

static size_t shown(const struct search *s)
{
	return s->writes < MOST_WRITES ? s->writes : MOST_WRITES;
}

static void print_writes(const struct search *s)
{
	for (size_t i = 0; i < shown(s); i++) {
		const struct write *w = &s->shown[i];

		printf("    from rank %s thread %u SN %" PRIu64 ": bytes %" PRIu64 " to %" PRIu64
		       " of the %" PRIu64 " that it wrote to descriptor %d\n",
		       sr_trace_rank_name(s->trace, w->rank), w->thread, w->sn, w->first, w->last, w->bytes, w->fd);
	}
	if (s->writes > MOST_WRITES)
		printf("    and %zu more\n", s->writes - MOST_WRITES);
	if (s->several)
		printf("    these are different connections, and the trace does not tell which one it is\n");
}

static void print_origin(const struct search *s)
{
	print_writes(s);
	if (s->writes || !s->bytes)
		return;
	if (!strcmp(s->channel.what, "file"))
		printf("    from the kernel\n");
	else if (s->channel.peer[0])
		printf("    from outside of the recorded ranks: %s\n", s->channel.peer);
	else if (s->channel.end >= 0)
		printf("    from outside of the recorded ranks, as a child of rank %s\n", sr_trace_rank_name(s->trace, s->rank));
	else
		printf("    from outside of the recorded ranks\n");
}

static void print_read(const struct search *s)
{
	printf("  %" PRIu64 " bytes on descriptor %d", s->bytes, s->fd);
	print_channel(&s->channel);
	putchar('\n');
	print_origin(s);
}

static json_t *read_json(const struct search *s)
{
	const struct sr_channel *c = &s->channel;
	json_t *writes = json_array();

	for (size_t i = 0; i < shown(s); i++) {
		const struct write *w = &s->shown[i];

		json_array_append_new(writes, json_pack("{s:i, s:s*, s:i, s:I, s:i, s:I, s:I, s:I}", "rank",
							sr_trace_recorded_rank(s->trace, w->rank), "child",
							sr_trace_child(s->trace, w->rank), "thread", (int)w->thread, "sn", (json_int_t)w->sn,
							"descriptor", w->fd, "first", (json_int_t)w->first,
							"last", (json_int_t)w->last, "bytes",
							(json_int_t)w->bytes));
	}
	return json_pack("{s:s, s:I, s:i, s:o, s:o, s:o, s:I, s:b, s:o}", "what", "descriptor", "bytes",
			 (json_int_t)s->bytes, "descriptor", s->fd, "kind",
			 c->what[0] ? sr_json_string(c->what) : json_null(), "path",
			 c->path[0] ? sr_json_string(c->path) : json_null(), "peer",
			 c->peer[0] ? sr_json_string(c->peer) : json_null(), "writes_found",
			 (json_int_t)s->writes, "several_connections", s->several, "writes", writes);
}

static bool find_all(struct sr_trace *t, struct search *s)
{
	struct sr_error err;

	if (sr_channels_walk(t, s->rank, find_read, s, NULL, &err) || !s->found)
		return false;
	if (s->channel.end >= 0 || !strcmp(s->channel.what, "socket"))
		for (size_t i = 0; i < sr_trace_ranks(t); i++)
			if (sr_channels_walk(t, sr_trace_rank_number(t, i), find_write, s, NULL, &err))
				sr_note("%s", err.text);
	return true;
}

static bool is_one_of(const char *name, const char *const names[])
{
	for (size_t i = 0; names[i]; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

/* "time" or "random", if the call brings such; else NULL. */
static const char *kind_of_call(const char *name)
{
	static const char *const times[] = {"clock_gettime", "gettimeofday", "time", "times", "clock",
					    "timespec_get", "ftime", "getrusage", NULL};
	static const char *const random[] = {"getrandom", "getentropy", NULL};

	if (is_one_of(name, times))
		return "time";
	return is_one_of(name, random) ? "random" : NULL;
}

static void print_call(const char *kind, const char *name, int64_t result)
{
	if (!strcmp(kind, "time"))
		printf("  time: from the clocks of the recorded machine\n");
	else if (!strcmp(name, "getrandom"))
		printf("  random: %" PRId64 " bytes from the kernel\n", result);
	else
		printf("  random: bytes from the kernel\n");
}

bool sr_explain_entered(struct sr_trace *t, int32_t rank, uint32_t thread, uint64_t sn, json_t **json)
{
	json_t *call = sr_channels_call(t, rank, thread, sn);
	const char *name = json_string_value(json_object_get(call, "call"));
	const char *kind = name ? kind_of_call(name) : NULL;
	struct search s = {.trace = t, .rank = rank, .thread = thread, .sn = sn};
	bool is_read = name && !kind && find_all(t, &s);

	if (json)
		*json = kind ? json_pack("{s:s}", "what", kind) : is_read ? read_json(&s) : json_null();
	else if (kind)
		print_call(kind, name, json_integer_value(json_object_get(call, "result")));
	else if (is_read)
		print_read(&s);
	free(s.data);
	json_decref(call);
	return kind || is_read;
}
