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

#define MOST_WRITES 8 /* that are shown */

struct search {
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
	/* Of the writes. */
	int writes;
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
		printf("    from rank %d thread %u SN %" PRIu64 ": bytes %" PRIu64 " to %" PRIu64
		       " of the %" PRIu64 " that it wrote to descriptor %d\n",
		       u->rank, u->thread, u->sn, read_at > wrote_at ? read_at - wrote_at : 0,
		       (read_at + s->bytes < wrote_at + u->bytes ? read_at + s->bytes - wrote_at
								  : u->bytes) - 1,
		       u->bytes, u->fd);
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

static void print_origin(const struct search *s)
{
	if (s->writes > MOST_WRITES)
		printf("    and %d more\n", s->writes - MOST_WRITES);
	if (s->several)
		printf("    these are different connections, and the trace does not tell which one it is\n");
	if (s->writes || !s->bytes)
		return;
	if (!strcmp(s->channel.what, "file"))
		printf("    from the kernel\n");
	else if (s->channel.peer[0])
		printf("    from outside of the recorded ranks: %s\n", s->channel.peer);
	else if (s->channel.end >= 0)
		printf("    from outside of the recorded ranks, as a child of rank %d\n", s->rank);
	else
		printf("    from outside of the recorded ranks\n");
}

static bool explain_read(struct sr_trace *t, struct search *s)
{
	struct sr_error err;

	if (sr_channels_walk(t, s->rank, find_read, s, &err) || !s->found)
		return false;
	printf("  %" PRIu64 " bytes on descriptor %d", s->bytes, s->fd);
	print_channel(&s->channel);
	putchar('\n');
	if (s->channel.end >= 0 || !strcmp(s->channel.what, "socket"))
		for (size_t i = 0; i < sr_trace_ranks(t); i++)
			if (sr_channels_walk(t, sr_trace_rank_number(t, i), find_write, s, &err))
				sr_note("%s", err.text);
	print_origin(s);
	return true;
}

static bool is_one_of(const char *name, const char *const names[])
{
	for (size_t i = 0; names[i]; i++)
		if (!strcmp(names[i], name))
			return true;
	return false;
}

static bool explain_value(const char *name, int64_t result)
{
	static const char *const times[] = {"clock_gettime", "gettimeofday", "time", "times", "clock",
					    "timespec_get", "ftime", "getrusage", NULL};
	static const char *const random[] = {"getrandom", "getentropy", NULL};

	if (is_one_of(name, times))
		printf("  time: from the clocks of the recorded machine\n");
	else if (!strcmp(name, "getrandom"))
		printf("  random: %" PRId64 " bytes from the kernel\n", result);
	else if (is_one_of(name, random))
		printf("  random: bytes from the kernel\n");
	else
		return false;
	return true;
}

bool sr_explain_entered(struct sr_trace *t, int32_t rank, uint32_t thread, uint64_t sn)
{
	json_t *call = sr_channels_call(t, rank, thread, sn);
	const char *name = json_string_value(json_object_get(call, "call"));
	struct search s = {.rank = rank, .thread = thread, .sn = sn};
	bool known = name && (explain_value(name, json_integer_value(json_object_get(call, "result"))) ||
			      explain_read(t, &s));

	free(s.data);
	json_decref(call);
	return known;
}
