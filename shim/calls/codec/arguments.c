/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/codec/arguments.h"

#include <string.h>

#include "shim/kernel/guarded.h"
#include "shim/kernel/readable.h"
#include "shim/memory/heap.h"

/* A piece of work on a call's arguments. */
struct work {
	struct sr_buf *b;
	struct sr_cursor *c;
	const struct sr_call_codec *codec;
	const uint64_t *a;
	uint64_t result;
};

static void put_in(void *argument)
{
	const struct work *w = argument;

	w->codec->put_in(w->b, w->a);
}

static void put_out(void *argument)
{
	const struct work *w = argument;

	w->codec->put_out(w->b, w->a, w->result);
}

static void deliver(void *argument)
{
	const struct work *w = argument;

	w->codec->deliver(w->c, w->a, w->result);
}

static bool try(void (*work)(void *), struct work w)
{
	const struct sr_cursor cursor = w.c ? *w.c : (struct sr_cursor){0};
	const size_t length = w.b ? w.b->len : 0;

	if (sr_guarded(work, &w))
		return true;
	if (w.b)
		w.b->len = length;
	if (w.c)
		*w.c = cursor;
	return false;
}

#define NOTHING_BYTES (1 << 16)

/* What is read, and written, in place of what is no memory. Few programs need it, and two of it do no harm. */
static void *get_nothing(void)
{
	static void *nothing;

	if (!nothing)
		nothing = sr_alloc_zeroed(NOTHING_BYTES);
	return nothing;
}

static void replace(const struct sr_call_desc *d, uint64_t *a, bool all)
{
	void *nothing = get_nothing();

	for (int i = 0; i < d->nargs; i++)
		if (d->length_of[i] && a[i] && (all || !sr_is_readable((const void *)a[i], 1)))
			a[i] = (uintptr_t)nothing;
}

static void __attribute__((noinline, cold))
work_without(void (*work)(void *), const struct sr_call_desc *d, struct work w)
{
	uint64_t words[SR_MAX_ARGS];

	memcpy(words, w.a, d->nargs * sizeof(words[0]));
	w.a = words;
	replace(d, words, false);
	if (try(work, w))
		return;
	replace(d, words, true);
	try(work, w);
}

bool sr_put_doubtful_arguments(struct sr_buf *b, const struct sr_call_desc *d, const struct sr_call_codec *codec,
			       const uint64_t *a)
{
	struct work w = {.b = b, .codec = codec, .a = a};

	if (try(put_in, w))
		return true;
	work_without(put_in, d, w);
	return false;
}

void sr_put_refused(struct sr_buf *b, const struct sr_call_desc *d, const struct sr_call_codec *codec, const uint64_t *a,
		    uint64_t result)
{
	struct work w = {.b = b, .codec = codec, .a = a, .result = result};

	if (!try(put_out, w))
		work_without(put_out, d, w);
}

void sr_deliver_refused(struct sr_cursor *c, const struct sr_call_desc *d, const struct sr_call_codec *codec,
			const uint64_t *a, uint64_t result)
{
	struct work w = {.c = c, .codec = codec, .a = a, .result = result};

	if (!try(deliver, w))
		work_without(deliver, d, w);
}
