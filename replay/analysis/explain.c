/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/checksum.h"
#include "logd/base/opcodes.h"
#include "logd/trace/read_trace.h"
#include "replay/analysis/explain_index.h"

#define MARGIN SR_EXPLAIN_MARGIN

/* A hook returns this when it has seen all that was asked for. */
#define ENOUGH (-ECANCELED)

int sr_explained_call_order(const void *a, const void *b)
{
	const struct sr_explained_call *x = a, *y = b;

	if (x->rank != y->rank)
		return x->rank < y->rank ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->sn < y->sn ? -1 : x->sn > y->sn;
}

static bool is_asked_for(const struct sr_explanation *x, const struct sr_value *v)
{
	const struct sr_explained_call call = {v->rank, v->at.thread, v->at.sn};

	return bsearch(&call, x->calls, x->calls_n, sizeof(call), sr_explained_call_order) != NULL;
}

static int keep_value(struct sr_explanation *x, const struct sr_value *v)
{
	struct sr_explained *k = &x->values[x->values_n];
	size_t n = x->links.ranks_n;

	if (!v->data) {
		x->left_out++;
		return 0;
	}
	if (x->values_n == x->most) {
		x->too_many = true;
		return 0;
	}
	k->v = *v;
	k->data = malloc(v->length + 1);
	k->before = malloc(v->length + 1);
	k->before_known = calloc(v->length + 1, sizeof(bool));
	k->image = calloc(1, v->length + 2 * MARGIN); /* what is not known: 0, as memory begins */
	k->known = calloc(n + 1, sizeof(*k->known));
	k->last = calloc(n * SR_WRITES_KEPT + 1, sizeof(*k->last));
	k->since = calloc(n * SR_WRITES_KEPT + 1, sizeof(*k->since));
	k->last_n = calloc(n + 1, sizeof(size_t));
	k->since_n = calloc(n + 1, sizeof(size_t));
	x->values_n++;
	if (!k->data || !k->before || !k->before_known || !k->image || !k->known || !k->last ||
	    !k->since || !k->last_n || !k->since_n)
		return -ENOMEM;
	memcpy(k->data, v->data, v->length);
	memcpy(k->image + MARGIN, v->data, v->length);
	memcpy(k->known, v->known, n * sizeof(*k->known));
	return 0;
}

static int find_value(void *argument, const struct sr_value *v)
{
	struct sr_explanation *x = argument;

	if (is_asked_for(x, v)) {
		x->reached = true;
		return keep_value(x, v);
	}
	/* The values of one call come in a row. */
	return x->calls_n == 1 && x->reached && v->rank == x->calls->rank ? ENOUGH : 0;
}

static bool overlap(uint64_t a, uint64_t n, uint64_t b, uint64_t m)
{
	return a < b + m && b < a + n;
}

bool sr_explained_place(const struct sr_explained *k, size_t *memory, uint64_t *address)
{
	if (k->v.is_message)
		return false;
	*memory = k->v.is_exposed ? k->v.rank : k->v.from;
	*address = k->v.is_exposed ? k->v.address : k->v.remote;
	return true;
}

static void note_write(struct sr_explained *k, const struct sr_posted *p)
{
	const struct sr_written w = {p->at, p->address, p->length, p->checksum, p->opcode};
	struct sr_written *last = k->last + p->rank * SR_WRITES_KEPT, *since = k->since + p->rank * SR_WRITES_KEPT;
	bool before =
	    p->rank == k->v.rank ? p->at.step < k->v.at.step : p->at.step <= k->known[p->rank].step;

	if (before) {
		/* The newest first. */
		memmove(last + 1, last, (SR_WRITES_KEPT - 1) * sizeof(w));
		last[0] = w;
		k->last_n[p->rank]++;
	} else if (k->since_n[p->rank]++ < SR_WRITES_KEPT) {
		since[k->since_n[p->rank] - 1] = w;
	}
}

static int see_posted(void *argument, const struct sr_posted *p)
{
	struct sr_explanation *x = argument;
	size_t memory, i;
	uint64_t address;

	if (!(sr_op(p->opcode) & SR_OP_CHANGES))
		return 0;
	sr_explain_index_ask(x->places, p->to, p->address, p->length);
	while (sr_explain_index_next(x->places, &i)) {
		struct sr_explained *k = &x->values[i];

		if (sr_explained_place(k, &memory, &address) && p->to == memory &&
		    overlap(p->address, p->length, address, k->v.length))
			note_write(k, p);
	}
	return 0;
}

/* A byte of an earlier value: was it where this one is, or next to it? */
static void see_byte(struct sr_explained *k, uint64_t address, uint8_t byte, bool is_exposed)
{
	uint64_t at = address - k->v.address, in_image = at + MARGIN;

	if (at < k->v.length) {
		k->before[at] = byte;
		k->before_known[at] = true;
	} else if (is_exposed && k->v.is_exposed && in_image < k->v.length + 2 * MARGIN) {
		k->image[in_image] = byte;
	}
}

static int see_value(void *argument, const struct sr_value *v)
{
	struct sr_explanation *x = argument;
	size_t i;

	if (!v->data)
		return 0;
	sr_explain_index_ask(x->own, v->rank, v->address, v->length);
	while (sr_explain_index_next(x->own, &i)) {
		struct sr_explained *k = &x->values[i];

		if (v->rank != k->v.rank || v->at.step >= k->v.at.step ||
		    !overlap(v->address, v->length, k->v.address - MARGIN,
			     k->v.length + 2 * MARGIN))
			continue;
		if (overlap(v->address, v->length, k->v.address, k->v.length))
			k->before_sn = v->at.sn;
		for (uint32_t b = 0; b < v->length; b++)
			see_byte(k, v->address + b, v->data[b], v->is_exposed);
	}
	return 0;
}

/*
 * The checksum of a write of one piece is computed again from the value and from the bytes
 * assumed around it.  If both agree, the assumption was right.
 */
static bool has_its_bytes(const struct sr_explained *k, uint64_t address, const struct sr_written *w)
{
	uint64_t at = w->address - (address - MARGIN);

	if (!w->checksum || at > k->v.length + 2 * MARGIN ||
	    w->length > k->v.length + 2 * MARGIN - at)
		return false;
	return sr_checksum(k->image + at, w->length, 0) == w->checksum;
}

size_t sr_writes_kept(size_t n)
{
	return n < SR_WRITES_KEPT ? n : SR_WRITES_KEPT;
}

size_t sr_writes_matching(const struct sr_explained *k, const struct sr_written *w, size_t n, uint64_t address)
{
	size_t i = 0;

	while (i < n && !has_its_bytes(k, address, &w[i]))
		i++;
	return i;
}

/* The only write known to be last before; NULL: there is none, or several ranks have one. */
static const struct sr_written *only_last(const struct sr_explained *k, size_t ranks_n, size_t *rank)
{
	const struct sr_written *found = NULL;

	for (size_t i = 0; i < ranks_n; i++) {
		if (!k->last_n[i])
			continue;
		if (found)
			return NULL;
		found = &k->last[i * SR_WRITES_KEPT];
		*rank = i;
	}
	return found;
}

const struct sr_written *sr_explained_writer(const struct sr_explained *k, size_t ranks_n, size_t *rank,
					     bool *is_certain)
{
	size_t memory;
	uint64_t address;

	*is_certain = true;
	if (!sr_explained_place(k, &memory, &address))
		return NULL;
	for (size_t i = 0; i < ranks_n; i++) {
		size_t n = sr_writes_kept(k->last_n[i]);
		size_t found = sr_writes_matching(k, k->last + i * SR_WRITES_KEPT, n, address);

		*rank = i;
		if (found < n)
			return &k->last[i * SR_WRITES_KEPT + found];
	}
	*is_certain = false;
	return only_last(k, ranks_n, rank);
}

/* Values by the memory that they were in, and by that which they came to. */
static int make_indexes(struct sr_explanation *x)
{
	int err = 0;

	x->places = sr_explain_index_new(x->values_n);
	x->own = sr_explain_index_new(x->values_n);
	if (!x->places || !x->own)
		return -ENOMEM;
	for (size_t i = 0; i < x->values_n && !err; i++) {
		const struct sr_explained *k = &x->values[i];
		size_t memory;
		uint64_t address;

		if (sr_explained_place(k, &memory, &address))
			err = sr_explain_index_add(x->places, i, memory, address, k->v.length);
		if (!err)
			err = sr_explain_index_add(x->own, i, k->v.rank, k->v.address - MARGIN,
						   k->v.length + 2 * MARGIN);
	}
	return err;
}

int sr_explain(struct sr_explanation *x, struct sr_error *err)
{
	const struct sr_process_hooks first = {.value = find_value, .argument = x};
	const struct sr_process_hooks second = {
	    .posted = see_posted, .value = see_value, .argument = x};
	bool *group;
	struct sr_process_counts counts;
	int ret = sr_links_find(&x->links, x->trace, NULL, err);

	if (ret)
		return ret;
	x->values = calloc(x->most + 1, sizeof(*x->values));
	group = calloc(x->links.ranks_n + 1, sizeof(*group));
	if (!x->values || !group)
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	else
		ret = sr_process(x->trace, &x->links, group, &first, &counts, err);
	if (ret == ENOUGH)
		ret = 0;
	if (!ret && make_indexes(x))
		ret = sr_error_set(err, -ENOMEM, "no memory left");
	if (!ret && x->values_n)
		ret = sr_process(x->trace, &x->links, group, &second, &counts, err);
	free(group);
	return ret;
}

void sr_explain_free(struct sr_explanation *x)
{
	for (size_t i = 0; i < x->values_n; i++) {
		struct sr_explained *k = &x->values[i];

		free(k->data);
		free(k->before);
		free(k->before_known);
		free(k->image);
		free(k->known);
		free(k->last);
		free(k->since);
		free(k->last_n);
		free(k->since_n);
	}
	free(x->values);
	sr_explain_index_free(x->places);
	sr_explain_index_free(x->own);
	sr_links_free(&x->links);
}
