/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/explain.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/checksum.h"
#include "logd/base/opcodes.h"
#include "logd/trace/read_trace.h"

#define MARGIN SR_EXPLAIN_MARGIN

/* A hook returns this when it has seen all that was asked for. */
#define ENOUGH (-ECANCELED)

static bool is_asked_for(const struct sr_explanation *x, const struct sr_value *v)
{
	return v->rank == x->rank && v->at.thread == x->thread && v->at.sn == x->sn;
}

static int keep_value(struct sr_explanation *x, const struct sr_value *v)
{
	struct sr_explained *k = &x->values[x->values_n];
	size_t n = x->links.ranks_n;

	if (x->values_n == SR_VALUES_KEPT) {
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
	return x->reached && v->rank == x->rank ? ENOUGH : 0;
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
	size_t memory;
	uint64_t address;

	for (size_t i = 0; sr_op(p->opcode) & SR_OP_CHANGES && i < x->values_n; i++) {
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

	for (size_t i = 0; v->rank == x->rank && i < x->values_n; i++) {
		struct sr_explained *k = &x->values[i];

		if (v->at.step >= k->v.at.step ||
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

static bool find_rank(struct sr_explanation *x)
{
	while (x->rank < x->links.ranks_n && x->links.ranks[x->rank].number != x->rank_number)
		x->rank++;
	return x->rank < x->links.ranks_n;
}

int sr_explain(struct sr_explanation *x, struct sr_error *err)
{
	const struct sr_process_hooks first = {.value = find_value, .argument = x};
	const struct sr_process_hooks second = {
	    .posted = see_posted, .value = see_value, .argument = x};
	bool *group;
	struct sr_process_counts counts;
	int ret = sr_links_find(&x->links, x->trace, NULL, err);

	if (!ret && !find_rank(x))
		ret = sr_error_set(err, -ENOENT, "%s has no rank %d", sr_trace_dir(x->trace),
				   x->rank_number);
	if (ret)
		return ret;
	group = calloc(x->links.ranks_n + 1, sizeof(*group));
	ret = group ? sr_process(x->trace, &x->links, group, &first, &counts, err) : -ENOMEM;

	if ((!ret || ret == ENOUGH) && x->values_n)
		ret = sr_process(x->trace, &x->links, group, &second, &counts, err);
	free(group);
	return ret == ENOUGH ? 0 : ret;
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
	sr_links_free(&x->links);
}
