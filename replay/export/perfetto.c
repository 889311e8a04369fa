/* SPDX-License-Identifier: BSD-2-Clause */
/* perfetto.c: Perfetto's messages, by hand: TracePacket, TrackDescriptor, TrackEvent, InternedData.
 */
#include <errno.h>
#include <stdlib.h>

#include "replay/export/export.h"
#include "replay/export/proto.h"
#include "replay/print/progress.h"

/* Numbers of fields, as in Perfetto's protos/perfetto/trace. */
enum trace { TRACE_PACKET = 1 };
enum packet {
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_EVENT = 11,
	PACKET_INTERNED = 12,
	PACKET_FLAGS = 13,
	PACKET_TRACK = 60,
};
enum { STATE_CLEARED = 1, NEEDS_STATE = 2 }; /* PACKET_FLAGS */
enum track {
	TRACK_UUID = 1,
	TRACK_NAME = 2,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	TRACK_COUNTER = 8
};
enum process { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum thread { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum counter { COUNTER_UNIT_NAME = 6 };
enum event {
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME = 10, /* interned */
	EVENT_TRACK = 11,
	EVENT_CATEGORY = 22,
	EVENT_COUNTER = 30,
	EVENT_FLOW = 47,
	EVENT_FLOW_ENDS = 48,
};
enum { BEGIN = 1, END = 2, COUNTER = 4 }; /* EVENT_TYPE */
enum annotation { ANNOTATION_NAME = 1, ANNOTATION_NUMBER = 3, ANNOTATION_STRING = 17 };
enum interned { INTERNED_EVENT_NAME = 2, INTERNED_ANNOTATION = 3, INTERNED_STRING = 29 };
enum name { NAME_ID = 1, NAME_TEXT = 2 };

/* Our names of annotations: interned once, at the beginning. */
enum { SN = 1, REPEATED, BYTES, SITE };
static const char *const annotation_names[] = {
    [SN] = "SN", [REPEATED] = "calls", [BYTES] = "bytes of its record", [SITE] = "site"};

#define SEQUENCE 1
#define KINDS    65536

struct writer {
	const struct sr_names *names;
	const struct sr_timeline *t;
	FILE *out;
	struct sr_proto packet, part, inner, small;
	struct sr_arrows arrows;
	bool *has_name;                       /* of [kind], for the rank that is written */
	uint64_t *sites, sites_n, sites_room; /* of that rank: hash table of interned ones */
	uint64_t strings;
	bool has_state;
};

/* Tracks: processes and their counters by rank, threads behind them. */
static uint64_t uuid_of_rank(size_t rank)
{
	return 2 * rank + 1;
}

static uint64_t uuid_of_track(const struct writer *w, size_t track)
{
	return 2 * w->t->ranks_n + 1 + track;
}

static void end_packet(struct writer *w)
{
	uint8_t key = TRACE_PACKET << 3 | 2, bytes[10];
	size_t n = 0;

	sr_proto_number(&w->packet, PACKET_SEQUENCE, SEQUENCE);
	sr_proto_number(&w->packet, PACKET_FLAGS, NEEDS_STATE | (w->has_state ? 0 : STATE_CLEARED));
	w->has_state = true;
	for (uint64_t rest = w->packet.n; rest || !n; rest >>= 7)
		bytes[n++] = (uint8_t)(rest & 0x7f) | (rest > 0x7f ? 0x80 : 0);
	putc(key, w->out);
	fwrite(bytes, 1, n, w->out);
	fwrite(w->packet.p, 1, w->packet.n, w->out);
	sr_proto_clear(&w->packet);
	sr_proto_clear(&w->part);
}

static void put_interned(struct writer *w, uint32_t field, uint64_t id, const char *text)
{
	sr_proto_clear(&w->inner);
	sr_proto_clear(&w->small);
	sr_proto_number(&w->small, NAME_ID, id);
	sr_proto_text(&w->small, NAME_TEXT, text);
	sr_proto_message(&w->inner, field, &w->small);
	/* A repeated message may come in pieces: they are merged. */
	sr_proto_message(&w->packet, PACKET_INTERNED, &w->inner);
}

/* ------------------------------------------------------------- the tracks */

static void describe_process(struct writer *w, size_t rank)
{
	char *command = sr_names_command(w->names, rank);
	char text[512];

	snprintf(text, sizeof(text), "rank %d: %s", w->t->links.ranks[rank].number,
		 command ? command : "");
	free(command);
	sr_proto_clear(&w->inner);
	/* Perfetto takes 0 for the idle process. */
	sr_proto_number(&w->inner, PROCESS_PID, (uint64_t)w->t->links.ranks[rank].number + 1);
	sr_proto_text(&w->inner, PROCESS_NAME, text);
	sr_proto_number(&w->part, TRACK_UUID, uuid_of_rank(rank));
	sr_proto_message(&w->part, TRACK_PROCESS, &w->inner);
	sr_proto_message(&w->packet, PACKET_TRACK, &w->part);
	end_packet(w);
}

static void describe_counter(struct writer *w, size_t rank)
{
	sr_proto_clear(&w->inner);
	sr_proto_text(&w->inner, COUNTER_UNIT_NAME, "requests");
	sr_proto_number(&w->part, TRACK_UUID, uuid_of_rank(rank) + 1);
	sr_proto_number(&w->part, TRACK_PARENT, uuid_of_rank(rank));
	sr_proto_text(&w->part, TRACK_NAME, "outstanding requests");
	sr_proto_message(&w->part, TRACK_COUNTER, &w->inner);
	sr_proto_message(&w->packet, PACKET_TRACK, &w->part);
	end_packet(w);
}

static void describe_thread(struct writer *w, size_t track)
{
	const struct sr_track *k = &w->t->tracks[track];
	char text[64];

	snprintf(text, sizeof(text), "thread %u", k->thread);
	sr_proto_clear(&w->inner);
	sr_proto_number(&w->inner, THREAD_PID, (uint64_t)w->t->links.ranks[k->rank].number + 1);
	sr_proto_number(&w->inner, THREAD_TID, 1000000 + track);
	sr_proto_text(&w->inner, THREAD_NAME, text);
	sr_proto_number(&w->part, TRACK_UUID, uuid_of_track(w, track));
	sr_proto_number(&w->part, TRACK_PARENT, uuid_of_rank(k->rank));
	sr_proto_message(&w->part, TRACK_THREAD, &w->inner);
	sr_proto_message(&w->packet, PACKET_TRACK, &w->part);
	end_packet(w);
}

/* ------------------------------------------------------------- the slices */

/* The id of a site's text: its place in the hash table, and where its rank's begin.  0: no text. */
static uint64_t id_of_site(struct writer *w, size_t rank, uint64_t site)
{
	uint64_t at = site * 0x9e3779b97f4a7c15ull >> 20;
	const char *text;

	for (;; at++) {
		at &= w->sites_room - 1;
		if (w->sites[at] == site)
			return w->strings + at + 1;
		if (!w->sites[at])
			break;
	}
	text = sr_names_site(w->names, rank, site);
	if (!*text || 2 * (w->sites_n + 1) > w->sites_room)
		return 0;
	w->sites[at] = site;
	w->sites_n++;
	put_interned(w, INTERNED_STRING, w->strings + at + 1, text);
	return w->strings + at + 1;
}

static void annotate(struct writer *w, uint32_t name, uint32_t field, uint64_t value)
{
	sr_proto_clear(&w->inner);
	sr_proto_number(&w->inner, ANNOTATION_NAME, name);
	sr_proto_number(&w->inner, field, value);
	sr_proto_message(&w->part, EVENT_ANNOTATION, &w->inner);
}

static void begin_event(struct writer *w, uint64_t time, uint64_t type, uint64_t track)
{
	sr_proto_number(&w->packet, PACKET_TIMESTAMP, w->t->began ? time : time * SR_EXPORT_UNIT);
	sr_proto_number(&w->part, EVENT_TYPE, type);
	sr_proto_number(&w->part, EVENT_TRACK, track);
}

static void put_ends(struct writer *w, struct sr_place p, bool is_before)
{
	const struct sr_flow *f;

	while ((f = sr_arrows_to(&w->arrows, p, is_before)))
		sr_proto_fixed64(&w->part, EVENT_FLOW_ENDS, sr_arrow_number(w->t, f));
}

static void put_slice(struct writer *w, struct sr_place p)
{
	const struct sr_slice *s = sr_timeline_slice(w->t, p);
	size_t rank = w->t->tracks[p.track].rank;
	/* Kinds have other meanings in other ranks, if these were recorded by other versions. */
	uint64_t name = rank * KINDS + s->kind + 1, site = id_of_site(w, rank, s->site);
	const struct sr_flow *f;

	if (!w->has_name[s->kind])
		put_interned(w, INTERNED_EVENT_NAME, name, sr_names_call(w->names, rank, s->kind));
	w->has_name[s->kind] = true;
	begin_event(w, s->begin, BEGIN, uuid_of_track(w, p.track));
	sr_proto_number(&w->part, EVENT_NAME, name);
	sr_proto_text(&w->part, EVENT_CATEGORY, "call");
	annotate(w, SN, ANNOTATION_NUMBER, s->sn);
	if (s->count > 1)
		annotate(w, REPEATED, ANNOTATION_NUMBER, s->count);
	annotate(w, BYTES, ANNOTATION_NUMBER, s->bytes);
	if (site)
		annotate(w, SITE, ANNOTATION_STRING, site);
	put_ends(w, p, true);
	while ((f = sr_arrows_from(&w->arrows, p)))
		sr_proto_fixed64(&w->part, EVENT_FLOW, sr_arrow_number(w->t, f));
	sr_proto_message(&w->packet, PACKET_EVENT, &w->part);
	end_packet(w);

	begin_event(w, s->end, END, uuid_of_track(w, p.track));
	put_ends(w, p, false);
	sr_proto_message(&w->packet, PACKET_EVENT, &w->part);
	end_packet(w);
}

static int put_counter(struct writer *w, size_t rank)
{
	size_t n;
	struct sr_step *steps = sr_timeline_outstanding(w->t, rank, &n);

	if (!steps)
		return -ENOMEM;
	if (n)
		describe_counter(w, rank);
	for (size_t i = 0; i < n; i++) {
		begin_event(w, steps[i].time, COUNTER, uuid_of_rank(rank) + 1);
		sr_proto_number(&w->part, EVENT_COUNTER, (uint64_t)steps[i].count);
		sr_proto_message(&w->packet, PACKET_EVENT, &w->part);
		end_packet(w);
	}
	free(steps);
	return 0;
}

/* ------------------------------------------------------------------- all */

/* Room for the sites of a rank: calls have fewer places in a program than this, or lack them. */
static int begin_rank(struct writer *w, size_t rank)
{
	w->strings += w->sites_room;
	w->sites_room = 1 << 16;
	w->sites_n = 0;
	free(w->sites);
	free(w->has_name);
	w->sites = calloc(w->sites_room, sizeof(*w->sites));
	w->has_name = calloc(KINDS, sizeof(*w->has_name));
	if (!w->sites || !w->has_name)
		return -ENOMEM;
	describe_process(w, rank);
	return put_counter(w, rank);
}

int sr_export_perfetto(const struct sr_names *names, FILE *out)
{
	struct writer w = {.names = names, .t = names->t, .out = out};
	int err = sr_arrows_sort(&w.arrows, w.t);
	uint64_t slices = 0;

	for (uint32_t i = SN; i <= SITE; i++)
		put_interned(&w, INTERNED_ANNOTATION, i, annotation_names[i]);
	for (size_t rank = 0; rank < w.t->ranks_n && !err; rank++) {
		err = begin_rank(&w, rank);
		for (size_t i = w.t->first_track[rank]; i < w.t->first_track[rank + 1] && !err;
		     i++) {
			describe_thread(&w, i);
			for (size_t s = 0; s < w.t->tracks[i].n; s++) {
				put_slice(&w, (struct sr_place){(uint32_t)i, (uint32_t)s});
				sr_progress_count(++slices, w.t->slices_n);
			}
		}
	}
	if (w.packet.failed || w.part.failed || w.inner.failed || w.small.failed)
		err = -ENOMEM;
	sr_arrows_free(&w.arrows);
	sr_proto_free(&w.packet);
	sr_proto_free(&w.part);
	sr_proto_free(&w.inner);
	sr_proto_free(&w.small);
	free(w.sites);
	free(w.has_name);
	return err;
}
