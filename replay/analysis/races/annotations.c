/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/annotations.h"

#include <errno.h>
#include <stdlib.h>

#include "replay/analysis/log/grow.h"
#include "replay/analysis/races/positions.h"
#include "sreplay/annotate.h"

/* ------------------------------------------------------------------ barriers */

static uint64_t mix(uint64_t a, uint64_t b)
{
	return (a ^ b * 0x9e3779b97f4a7c15ull) * 0xbf58476d1ce4e5b9ull;
}

/* How often the rank has entered this barrier, or left it, with this time. */
static int count(struct sr_annotations *a, const struct sr_annotated *d, uint64_t *n)
{
	const uint64_t key = mix(mix(d->a.name, d->rank + 1), d->a.what);

	*n = 0;
	sr_keymap_get(&a->counts, key, n);
	return sr_keymap_put(&a->counts, key, ++*n);
}

static int take_barrier(struct sr_collect *c, const struct sr_annotated *d, uint32_t moment)
{
	struct sr_annotations *a = &c->annotations;
	uint64_t n, key, at;

	if (count(a, d, &n))
		return -ENOMEM;
	key = mix(mix(d->a.name, n), UINT64_MAX);
	if (!sr_keymap_get(&a->barriers, key, &at)) {
		at = sr_model_moment(c->m, sr_model_lane(c->m, true));
		if (sr_keymap_put(&a->barriers, key, at))
			return -ENOMEM;
	}
	if (d->a.what == SREPLAY_ANNOTATION_ENTER)
		sr_model_order(c->m, moment, (uint32_t)at, SR_SURE, false);
	else
		sr_model_order(c->m, (uint32_t)at, moment, SR_SURE, false);
	return 0;
}

/* --------------------------------------------------------------------- locks */

static int take_lock(struct sr_annotations *a, const struct sr_annotated *d, uint32_t moment)
{
	struct sr_annotated_lock *l = sr_grow((void **)&a->locks, a->locks_n, &a->locks_room, sizeof(*l));

	if (!l)
		return -ENOMEM;
	*l = (struct sr_annotated_lock){
	    .name = d->a.name, .begin = moment, .end = SR_NO_MOMENT, .rank = (uint32_t)d->rank, .thread = d->at.thread};
	a->locks_n++;
	return 0;
}

/* Of the last time that this thread took it. */
static void take_unlock(struct sr_annotations *a, const struct sr_annotated *d, uint32_t moment)
{
	for (size_t i = a->locks_n; i-- > 0;) {
		struct sr_annotated_lock *l = &a->locks[i];

		if (l->name != d->a.name || l->rank != d->rank || l->thread != d->at.thread)
			continue;
		if (l->end == SR_NO_MOMENT)
			l->end = moment;
		return;
	}
}

static int number_of(struct sr_keymap *numbers, uint64_t name, uint32_t *locks, uint32_t *number)
{
	uint64_t at;

	if (!sr_keymap_get(numbers, mix(name, 1), &at)) {
		at = (*locks)++;
		if (sr_keymap_put(numbers, mix(name, 1), at))
			return -ENOMEM;
	}
	*number = (uint32_t)at;
	return 0;
}

int sr_annotations_add_sections(const struct sr_annotations *a, struct sr_sections *s, uint32_t *locks)
{
	struct sr_keymap numbers = {0};
	int err = 0;

	/* One that is not given back excludes nothing. */
	for (size_t i = 0; i < a->locks_n && !err; i++) {
		const struct sr_annotated_lock *l = &a->locks[i];
		uint32_t number = 0;

		if (l->end == SR_NO_MOMENT)
			continue;
		err = number_of(&numbers, l->name, locks, &number);
		if (!err)
			err = sr_section_add_annotated(s, l, number);
	}
	sr_keymap_free(&numbers);
	return err;
}

/* ----------------------------------------------------------------------- all */

static int take_benign(struct sr_collect *c, const struct sr_annotated *d)
{
	struct sr_race_run *run = c->run;
	struct sr_race_benign *b = sr_grow((void **)&run->benign, run->benign_n, &run->benign_room, sizeof(*b));

	if (!b)
		return -ENOMEM;
	*b = (struct sr_race_benign){.begin = d->a.name, .end = d->a.name + d->a.bytes, .owner = (uint32_t)d->rank};
	run->benign_n++;
	return 0;
}

int sr_collect_annotated(void *argument, const struct sr_annotated *d)
{
	struct sr_collect *c = argument;
	uint32_t moment;

	if (d->a.what == SREPLAY_ANNOTATION_BENIGN)
		return take_benign(c, d);
	moment = sr_collect_moment(c, d->rank, &d->at, false);
	if (d->a.what == SREPLAY_ANNOTATION_LOCK)
		return take_lock(&c->annotations, d, moment);
	if (d->a.what == SREPLAY_ANNOTATION_UNLOCK) {
		take_unlock(&c->annotations, d, moment);
		return 0;
	}
	return take_barrier(c, d, moment);
}

void sr_annotations_free(struct sr_annotations *a)
{
	free(a->locks);
	sr_keymap_free(&a->counts);
	sr_keymap_free(&a->barriers);
}
