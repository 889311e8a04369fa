/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/info_order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/decode.h"
#include "replay/analysis/log/wire.h"
#include "replay/command/encoded.h"
#include "replay/print/json.h"
#include "shim/core/call.h"

#define COMPLETION_QUEUES 256 /* a power of two */
#define QUEUES		  8192 /* likewise */

typedef unsigned long long ull;

enum class { REQUESTS, COMPLETIONS, IDLE_POLLS, VALUES, CLOCKS, SUMS, THREADS, CONTROL, CLASSES };

static const struct {
	const char *key, *text;
} names[] = {
    [REQUESTS] = {"requests", "requests"},
    [COMPLETIONS] = {"completions", "completions"},
    [IDLE_POLLS] = {"idle_polls", "polls that found nothing"},
    [VALUES] = {"values", "values of exposed memory"},
    [CLOCKS] = {"clocks", "clocks"},
    [SUMS] = {"sums", "sums"},
    [THREADS] = {"threads", "heap runs and run tokens of threads"},
    [CONTROL] = {"control", "all other calls"},
};

/* The send or receive queue of which a completion queue's last completion was. */
struct last {
	uint64_t cq; /* 0: free */
	uint64_t queue; /* NOT_TOLD: of any */
};

#define NOT_TOLD UINT64_MAX

/* How often a send or receive queue had its turn, with one completion or several. */
struct turns {
	uint64_t cq; /* 0: free */
	uint64_t queue, n;
};

struct sr_info_order {
	struct sr_encoded *of[CLASSES];
	enum class before; /* of the last call, to which a REPEAT belongs */
	struct last last[COMPLETION_QUEUES];
	struct turns turns[QUEUES];
	uint64_t completions, picks, entries, unnamed; /* unnamed: whose they are is not told */
	uint64_t asynchronous, changing, landing, without_clocks, dropped;
};

struct sr_info_order *sr_info_order_new(const struct sr_trace *t, int32_t rank)
{
	struct sr_info_order *o = calloc(1, sizeof(*o));
	bool good = o;

	for (int i = 0; i < CLASSES && good; i++) {
		o->of[i] = sr_encoded_new(t, rank);
		good = o->of[i];
	}
	if (good)
		return o;
	sr_info_order_free(o);
	return NULL;
}

void sr_info_order_free(struct sr_info_order *o)
{
	for (int i = 0; o && i < CLASSES; i++)
		sr_encoded_free(o->of[i]);
	free(o);
}

/* ------------------------------------------------------------- classes */

static bool found_nothing(enum sr_what what, const struct sr_entry *e)
{
	struct sr_call_head head;

	if (e->size < sizeof(head))
		return false;
	memcpy(&head, e->payload, sizeof(head));
	return what == SR_WHAT_POLL ? !head.result : head.result;
}

static enum class class_of_call(const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	enum sr_what what = sr_log_what(kinds, e->kind);

	if (what == SR_WHAT_NOTHING || what >= SR_WHAT_DATA_PATH_END)
		return CONTROL;
	if (what != SR_WHAT_POLL && what != SR_WHAT_POLL_EX)
		return REQUESTS;
	return found_nothing(what, e) ? IDLE_POLLS : COMPLETIONS;
}

static enum class class_of(struct sr_info_order *o, const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	if (e->kind >= SR_REC_CALL)
		return o->before = class_of_call(kinds, e);
	switch (e->kind) {
	case SR_REC_REPEAT:
		return o->before;
	case SR_REC_EXPOSED:
		return VALUES;
	case SR_REC_CLOCK:
	case SR_REC_BEHIND:
		return CLOCKS;
	case SR_REC_PICKED:
	case SR_REC_CHANGED:
		return COMPLETIONS;
	case SR_REC_CHECK:
		return SUMS;
	case SR_REC_HEAP:
	case SR_REC_RUN_TOKEN:
	case SR_REC_PLACE:
	case SR_REC_PASSED:
		return THREADS;
	default:
		return CONTROL;
	}
}

/* --------------------------------------------------------------- picks */

static struct last *last_of(struct sr_info_order *o, uint64_t cq)
{
	uint32_t at = (uint32_t)(cq * 0x9e3779b97f4a7c15ull >> 32);

	for (uint32_t i = 0; i < COMPLETION_QUEUES; i++) {
		struct last *l = &o->last[(at + i) % COMPLETION_QUEUES];

		if (!l->cq || l->cq == cq)
			return l;
	}
	return NULL;
}

/* More than so many queues are not told from each other: each turn counts as one of its own. */
static void note_turn(struct sr_info_order *o, uint64_t cq, uint64_t queue)
{
	uint32_t at = (uint32_t)((cq ^ queue << 20) * 0x9e3779b97f4a7c15ull >> 32);

	for (uint32_t i = 0; i < QUEUES; i++) {
		struct turns *t = &o->turns[(at + i) % QUEUES];

		if (t->cq && (t->cq != cq || t->queue != queue))
			continue;
		*t = (struct turns){cq, queue, t->n + 1};
		return;
	}
	o->entries++;
}

/*
 * The fewest entries that tell the order of the completion queue: where each turn of the queues is, but for those of
 * one of them, which are in between.
 */
static uint64_t entries_of(const struct sr_info_order *o, uint64_t cq)
{
	uint64_t sum = 0, most = 0;

	for (uint32_t i = 0; i < QUEUES; i++) {
		if (o->turns[i].cq != cq)
			continue;
		sum += o->turns[i].n;
		most = o->turns[i].n > most ? o->turns[i].n : most;
	}
	return sum - most;
}

static void end_picks(struct sr_info_order *o)
{
	for (uint32_t i = 0; i < COMPLETION_QUEUES; i++)
		if (o->last[i].cq)
			o->entries += entries_of(o, o->last[i].cq);
	memset(o->last, 0, sizeof(o->last));
	memset(o->turns, 0, sizeof(o->turns));
}

static uint64_t queue_of(uint32_t qp_num, uint32_t opcode)
{
	return (uint64_t)qp_num << 1 | (opcode & IBV_WC_RECV ? 1 : 0);
}

static uint64_t next_queue(struct sr_log_polled *polled)
{
	struct sr_completion x;
	struct ibv_wc wc;

	if (polled->extended) {
		sr_get_completion(&polled->completions, &x);
		return queue_of(x.qp_num, x.opcode);
	}
	sr_get_ibv_wc(&polled->completions, &wc);
	return wc.qp_num == SR_PICK_LEFT_OUT ? NOT_TOLD : queue_of(wc.qp_num, wc.opcode);
}

static void note_picks(struct sr_info_order *o, const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	struct sr_log_polled polled;
	struct last *l;
	uint64_t cq;

	if (!sr_log_get_polled_of(kinds, e, &polled) || e->size < sizeof(struct sr_call_head) + sizeof(cq))
		return;
	memcpy(&cq, (const uint8_t *)e->payload + sizeof(struct sr_call_head), sizeof(cq));
	l = last_of(o, cq);
	for (size_t i = 0; i < polled.n; i++) {
		uint64_t queue = next_queue(&polled);

		if (polled.completions.bad)
			return;
		o->completions++;
		if (queue == NOT_TOLD) {
			o->unnamed++;
		} else {
			o->picks += l && l->cq && l->queue != queue;
			if (l && (!l->cq || l->queue != queue))
				note_turn(o, cq, queue);
		}
		if (l)
			*l = (struct last){cq, queue};
	}
}

/* -------------------------------------------------------------- doubts */

static void note_doubts(struct sr_info_order *o, const struct sr_entry *e)
{
	struct sr_exposed_payload exposed;
	struct sr_connection_payload connection;
	struct sr_mark_payload mark;

	if (e->kind == SR_REC_EXPOSED && e->size >= sizeof(exposed)) {
		memcpy(&exposed, e->payload, sizeof(exposed));
		o->asynchronous += exposed.flags & SR_EXPOSED_ASYNC ? exposed.values : 0;
		o->changing += exposed.flags & SR_EXPOSED_ALONE ? 1 : 0;
		o->landing += exposed.flags & SR_EXPOSED_LANDING ? exposed.values : 0;
	} else if (e->kind == SR_REC_CONNECTION && e->size >= sizeof(connection)) {
		memcpy(&connection, e->payload, sizeof(connection));
		o->without_clocks +=
		    connection.carries != SR_CARRIES_CLOCKS && connection.carries != SR_CARRIES_TO_ONESELF;
	} else if (e->kind == SR_REC_MARK && e->size >= sizeof(mark)) {
		memcpy(&mark, e->payload, sizeof(mark));
		o->dropped += mark.reason == SR_MARK_DROPPED;
	}
}

void sr_info_order_add(struct sr_info_order *o, const struct sr_log_kinds *kinds, const struct sr_entry *e)
{
	sr_encoded_add(o->of[class_of(o, kinds, e)], e);
	note_picks(o, kinds, e);
	note_doubts(o, e);
}

void sr_info_order_end_stream(struct sr_info_order *o)
{
	for (int i = 0; i < CLASSES; i++)
		sr_encoded_end_stream(o->of[i]);
	o->before = CONTROL;
	end_picks(o);
}

/* ------------------------------------------------------------ printing */

static double share(uint64_t part, uint64_t of)
{
	return of ? (double)part / (double)of : 0;
}

void sr_info_order_print(const struct sr_info_order *o, uint64_t events)
{
	printf("  %llu requests, completions and values; on disk, each class of records alone:\n", (ull)events);
	printf("  %12s %10s %10s\n", "bytes", "an event", "records");
	for (int i = 0; i < CLASSES; i++) {
		uint64_t bytes = sr_encoded_bytes(o->of[i]);

		if (sr_encoded_records(o->of[i]))
			printf("  %12llu %10.2f %10llu  %s\n", (ull)bytes, share(bytes, events), (ull)sr_encoded_records(o->of[i]),
			       names[i].text);
	}
	printf("  %llu of %llu completions (%.0f %%) say whose they are, the others' order is known by their causes\n",
	       (ull)(o->completions - o->unnamed), (ull)o->completions, 100 * share(o->completions - o->unnamed, o->completions));
	printf("  of these, %llu are of another queue than the one before in their completion queue, as far as that is told; %llu entries "
	       "tell their order\n",
	       (ull)o->picks, (ull)o->entries);
	printf("  in doubt: %llu values that were found later than they could be, %llu loads of pages that kept changing, %llu "
	       "values recorded because requests were landing there, %llu connections without clocks, %llu gaps\n",
	       (ull)o->asynchronous, (ull)o->changing, (ull)o->landing, (ull)o->without_clocks, (ull)o->dropped);
}

json_t *sr_info_order_json(const struct sr_info_order *o, uint64_t events)
{
	json_t *classes = json_object();

	for (int i = 0; i < CLASSES; i++)
		json_object_set_new(classes, names[i].key,
				    json_pack("{s:o, s:o}", "records", sr_json_count(sr_encoded_records(o->of[i])), "bytes_on_disk",
					      sr_json_count(sr_encoded_bytes(o->of[i]))));
	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o, s:o, s:o, s:o}}", "events", sr_json_count(events), "classes", classes,
			 "completions", sr_json_count(o->completions), "not_told", sr_json_count(o->unnamed), "picks", sr_json_count(o->picks), "entries", sr_json_count(o->entries),
			 "doubts", "asynchronous", sr_json_count(o->asynchronous), "changing", sr_json_count(o->changing), "landing",
			 sr_json_count(o->landing), "without_clocks", sr_json_count(o->without_clocks), "gaps", sr_json_count(o->dropped));
}
