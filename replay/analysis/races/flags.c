/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/flags.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/large.h"

#define IS_CHANGE 1u
#define IS_LOAD   2u

/* sr_sweep() ended, since it had its answer. */
#define ANSWERED 1

bool sr_race_is_word(const struct sr_access *write, const struct sr_access *load)
{
	const bool is_write = write->kind == SR_ACCESS_WRITE || write->kind == SR_ACCESS_ATOMIC;

	if (write->begin / 8 != (write->end - 1) / 8)
		return false;
	if (load->kind == SR_ACCESS_LOAD)
		return is_write;
	return (is_write || write->kind == SR_ACCESS_STORE) && load->kind == SR_ACCESS_READ && load->is_polled &&
	       load->begin / 8 == (load->end - 1) / 8;
}

bool sr_race_may_be_flag(const struct sr_access *change, const struct sr_access *read)
{
	return change->kind == SR_ACCESS_STORE && change->begin / 8 == (change->end - 1) / 8 && read->kind == SR_ACCESS_READ && read->begin / 8 == (read->end - 1) / 8;
}

bool sr_race_is_tail(const struct sr_access *write, const struct sr_access *load)
{
	return write->kind == SR_ACCESS_WRITE && !write->is_relaxed && write->queue != SR_NO_QUEUE && load->kind == SR_ACCESS_LOAD &&
	       load->is_polled && load->begin / 8 == (write->end - 1) / 8;
}

bool sr_race_may_be_awaited(const struct sr_access *write, const struct sr_access *load)
{
	struct sr_access waiting = *load;

	waiting.is_polled = true;
	return load->kind == SR_ACCESS_LOAD && !load->is_polled && (sr_race_is_word(write, &waiting) || sr_race_is_tail(write, &waiting));
}

/* By moment: is it that of a change, or of a load? */
static uint8_t *mark(const struct sr_race_model *m, const struct sr_race_flag *f)
{
	uint8_t *marks = sr_large_zeroed(m->moments_n + 1, 1);

	for (size_t i = 0; marks && i < m->accesses_n; i++) {
		const struct sr_access *a = &m->accesses[i];

		if (a->until != SR_NO_MOMENT && f->is_change(f->argument, a))
			marks[a->until] |= IS_CHANGE;
		if (a->from != SR_NO_MOMENT && f->is_load(f->argument, a))
			marks[a->from] |= IS_LOAD;
	}
	return marks;
}

static bool tells_flag(const void *argument, uint32_t from, uint32_t to)
{
	const uint8_t *marks = argument;

	return marks[from] & IS_CHANGE && marks[to] & IS_LOAD;
}

static int take_found(void *argument, const struct sr_access *a, const struct sr_access *b, enum sr_surety unordered, uint16_t doubts)
{
	struct sr_race_flag *f = argument;

	(void)doubts;
	f->is_flag = !f->is_known(f->argument, a, b, unordered);
	return f->is_flag ? ANSWERED : 0;
}

static void *copy_of(const void *from, size_t bytes)
{
	void *copy = sr_large_make(bytes, 1);

	return copy && bytes ? memcpy(copy, from, bytes) : copy;
}

int sr_race_find_flag(struct sr_race_model *m, struct sr_race_flag *f)
{
	const size_t sizes[] = {m->moments_n * sizeof(*m->moments), m->orders_n * sizeof(*m->orders), m->choices_n * sizeof(*m->choices)};
	struct sr_sweep sweep = {.found = take_found, .argument = f};
	uint8_t *marks = mark(m, f);
	void *kept[] = {copy_of(m->moments, sizes[0]), copy_of(m->orders, sizes[1]), copy_of(m->choices, sizes[2])};
	int ret = -ENOMEM;

	f->is_flag = false;
	if (marks && kept[0] && kept[1] && kept[2]) {
		sr_model_cut_reads(m, tells_flag, marks);
		ret = sr_sweep(m, &sweep);
		memcpy(m->moments, kept[0], sizes[0]);
		memcpy(m->orders, kept[1], sizes[1]);
		if (sizes[2])
			memcpy(m->choices, kept[2], sizes[2]);
	}
	sr_large_free(marks, m->moments_n + 1, 1);
	for (size_t i = 0; i < 3; i++)
		sr_large_free(kept[i], sizes[i], 1);
	return ret == ANSWERED ? 0 : ret;
}
