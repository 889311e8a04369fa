/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/instances.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/log/schema.h"
#include "shim/core/call.h"

/* One walk over a thread's calls. */
struct walk {
	struct sr_instance **wanted; /* ascending by SN */
	size_t n, next;
	struct sr_keymap counts;      /* by kind and site */
	struct sr_instance last;      /* what was no idle poll */
	uint16_t poll_cq, start_poll; /* their kinds */
	uint16_t kind;                /* of the last call */
	uint64_t site;
	bool is_idle;
};

static int by_place(const void *a, const void *b)
{
	const struct sr_instance *x = *(struct sr_instance *const *)a,
				 *y = *(struct sr_instance *const *)b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return (x->sn > y->sn) - (x->sn < y->sn);
}

static void find_polls(struct walk *w, const struct sr_schema *schema)
{
	for (unsigned int kind = SR_REC_CALL; schema && kind < SR_REC_CALL + SR_CALL_COUNT + 64;
	     kind++) {
		const char *name = sr_schema_name(schema, (uint16_t)kind);

		if (!strcmp(name, "poll_cq") || !strcmp(name, "ibv_poll_cq"))
			w->poll_cq = (uint16_t)kind;
		if (!strcmp(name, "start_poll") || !strcmp(name, "ibv_start_poll"))
			w->start_poll = (uint16_t)kind;
	}
}

static int take_call(struct walk *w, uint64_t sn)
{
	const uint64_t key = w->site ^ (uint64_t)w->kind << 48;
	uint64_t count = 0;

	sr_keymap_get(&w->counts, key, &count);
	for (; w->next < w->n && w->wanted[w->next]->sn <= sn; w->next++) {
		struct sr_instance *i = w->wanted[w->next];

		if (i->is_before)
			*i = (struct sr_instance){
			    i->rank,      i->thread,         i->sn, true, w->last.kind,
			    w->last.site, w->last.occurrence};
		else if (i->sn == sn)
			*i =
			    (struct sr_instance){i->rank, i->thread,          i->sn, false, w->kind,
						 w->site, count + !w->is_idle};
	}
	if (w->is_idle)
		return 0;
	w->last.kind = w->kind;
	w->last.site = w->site;
	w->last.occurrence = count + 1;
	return sr_keymap_put(&w->counts, key, count + 1);
}

static int take_entry(struct walk *w, const struct sr_entry *e)
{
	struct sr_call_head head;
	int err = 0;

	if (e->kind == SR_REC_REPEAT) {
		for (uint64_t k = 0; k < e->count && !err && !(w->is_idle && w->next == w->n); k++)
			err = take_call(w, e->sn + k);
		return err;
	}
	if (e->kind < SR_REC_CALL || e->size < sizeof(head))
		return 0;
	memcpy(&head, e->payload, sizeof(head));
	w->kind = e->kind;
	w->site = head.site;
	w->is_idle = (e->kind == w->poll_cq && !head.result) ||
		     (e->kind == w->start_poll && head.result == ENOENT);
	return take_call(w, e->sn);
}

static int walk_thread(struct sr_trace *t, struct sr_instance **wanted, size_t n,
		       struct sr_error *err)
{
	struct sr_schema *schema = sr_schema_of(t, wanted[0]->rank, err);
	struct walk w = {.wanted = wanted, .n = n};
	struct sr_stream *s = NULL;
	struct sr_entry e;
	int ret =
	    schema ? sr_stream_open(&s, t, wanted[0]->rank, wanted[0]->thread, err) : -EBADMSG;

	find_polls(&w, schema);
	while (!ret && w.next < n && sr_stream_next(s, &e) > 0)
		ret = take_entry(&w, &e) ? sr_error_set(err, -ENOMEM, "no memory left") : 0;
	if (s)
		sr_stream_close(s);
	sr_schema_free(schema);
	sr_keymap_free(&w.counts);
	return ret;
}

int sr_instances_find(struct sr_trace *t, struct sr_instance *all, size_t n, struct sr_error *err)
{
	struct sr_instance **sorted = malloc((n + 1) * sizeof(struct sr_instance *));
	size_t end;
	int ret = sorted ? 0 : sr_error_set(err, -ENOMEM, "no memory left");

	for (size_t i = 0; i < n && !ret; i++) {
		all[i].kind = 0;
		sorted[i] = &all[i];
	}
	if (!ret && n)
		qsort(sorted, n, sizeof(struct sr_instance *), by_place);
	for (size_t i = 0; i < n && !ret; i = end) {
		for (end = i + 1; end < n && sorted[end]->rank == sorted[i]->rank &&
				  sorted[end]->thread == sorted[i]->thread;)
			end++;
		ret = walk_thread(t, sorted + i, end - i, err);
	}
	free(sorted);
	return ret;
}
