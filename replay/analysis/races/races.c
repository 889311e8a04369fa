/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/races/races.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/log/grow.h"
#include "replay/analysis/log/large.h"
#include "replay/analysis/races/doubts.h"
#include "replay/analysis/races/earlier.h"
#include "replay/analysis/races/flags.h"
#include "replay/analysis/races/polls.h"
#include "replay/analysis/races/sweep.h"

/* What comes before and after both accesses is asked of the first races: of so many that all moments gone through are no more. */
#define BOUNDS_MOMENTS_MOST 300000000u

/* Pairs of one race that are examined for doubts. */
#define EXAMINED 4

/* Words of which it is asked whether they are flags: each takes a sweep. */
#define FLAGS_ASKED 16

/* Of one race so many ordered pairs, and of all so many moments, are gone through for a barrier. */
#define ORDERED_MOST 64
#define MOMENTS_MOST 4000000000u

struct finding {
	struct sr_races *r;
	struct sr_keymap asked;  /* SR_PREDICT_LOCKSET: by stacks and class, pairs */
	uint64_t moments; /* ... gone through */
	size_t room;
	uint32_t *examined; /* by race */
	size_t examined_room;
	struct sr_race_doubts *doubts; /* NULL: nothing has been asked yet */
	struct sr_race_doubts_making making;
	struct sr_race_pairs pairs; /* found */
	struct sr_keymap known; /* these by both accesses, once they are asked for: is it doubtful? */
};

static uint64_t key_of_pair(const struct finding *f, const struct sr_access *a, const struct sr_access *b)
{
	const struct sr_access *all = f->r->run.model.accesses;
	const uint64_t x = (uint64_t)(a - all), y = (uint64_t)(b - all);

	return x < y ? x << 32 | y : y << 32 | x;
}

/* ------------------------------------------------------------------- races */

uint64_t sr_race_stack_of(const struct sr_races *r, const struct sr_access *a)
{
	const uint64_t site = a->pc ? a->pc : a->site;

	return site ? sr_race_stack(r->stacks, a->rank, a->thread, site, a->sn, a->fault) : 0;
}

static uint64_t origin_of(void *argument, const struct sr_access *a)
{
	const struct finding *f = argument;

	return (a->site ^ a->pc * 31) * 0x9e3779b97f4a7c15ull ^ sr_race_stack_of(f->r, a);
}

static bool goes_first(const struct sr_access *a, const struct sr_access *b)
{
	return a->site != b->site ? a->site < b->site : a->kind <= b->kind;
}

/* Of the instructions of CPUs only those have stacks that found something new. */
static bool is_same_stack(const struct sr_access *a, uint64_t stack, uint64_t other)
{
	return stack == other || (a->pc && (!stack || !other));
}

/* A flag that somebody waits for: who raises it, and who waits, is one note. */
static bool is_awaited(const struct sr_race *r)
{
	return r->class == SR_RACE_SYNC && (r->a.is_polled || r->b.is_polled);
}

static bool has_same_sites(const struct sr_race *r, const struct sr_race *s)
{
	return r->a.site == s->a.site && r->b.site == s->b.site && r->a.kind == s->a.kind && r->b.kind == s->b.kind;
}

static bool has_same_stacks(const struct sr_race *r, const struct sr_race *s)
{
	return is_same_stack(&r->a, r->stack_a, s->stack_a) && is_same_stack(&r->b, r->stack_b, s->stack_b);
}

static bool is_alike(const struct sr_race *r, const struct sr_race *s)
{
	return r->class == s->class && has_same_sites(r, s) && ((is_awaited(r) && is_awaited(s)) || has_same_stacks(r, s));
}

/* All that both access. */
static bool is_benign(const struct sr_race_run *run, const struct sr_race *r)
{
	for (size_t i = 0; i < run->benign_n; i++)
		if (run->benign[i].owner == r->a.owner && run->benign[i].begin <= r->begin && r->end <= run->benign[i].end)
			return true;
	return false;
}

/* Made for the first question, for most traces there is none, or by a thread of its own.  NULL: no memory. */
static struct sr_race_doubts *doubts_of(struct finding *f)
{
	if (!f->doubts)
		f->doubts = sr_race_doubts_end(&f->making);
	if (!f->doubts)
		f->doubts = sr_race_doubts_new(&f->r->run);
	return f->doubts;
}

/* All whom it concerns. */
static bool have_clocks(const struct finding *f, const struct sr_race *r)
{
	const struct sr_links_rank *ranks = f->r->how.links->ranks;

	return ranks[r->a.rank].member >= 0 && ranks[r->b.rank].member >= 0 && ranks[r->a.owner].member >= 0;
}

/* Was it asked what may order them beyond the model?  -ENOMEM, 0 or 1. */
static int weigh(struct finding *f, struct sr_race *r, enum sr_surety unordered, uint16_t doubts)
{
	const struct sr_race_run *run = &f->r->run;
	bool asks;

	r->doubts = r->a.doubts | r->b.doubts | doubts;
	r->entry.rank = r->a.doubts & SR_DOUBT_OUTSIDE ? r->a.rank : r->b.rank;
	if (unordered == SR_SURE)
		r->doubts |= SR_DOUBT_ORDER;
	if (!run->has_clocks || run->counts.holes)
		r->doubts |= SR_DOUBT_CUT;
	if (is_benign(run, r))
		r->doubts |= SR_DOUBT_BENIGN;
	if (run->shares_memory)
		r->doubts |= SR_DOUBT_SHARED;
	asks = !r->doubts;
	if (asks && run->borders_n) {
		if (!doubts_of(f))
			return -ENOMEM;
		r->doubts |= sr_race_may_be_ordered_outside(f->doubts, &r->a, &r->b, &r->entry);
	}
	r->evidence = r->doubts					 ? SR_RACE_POSSIBLE
		      : unordered == SR_SEEN && have_clocks(f, r) ? SR_RACE_OBSERVED
								  : SR_RACE_PREDICTED;
	r->severity = sr_race_severity_of(r);
	return asks;
}

static struct sr_race *add(struct finding *f, const struct sr_race *r)
{
	struct sr_race *added = sr_grow((void **)&f->r->races, f->r->n, &f->room, sizeof(*added));
	uint32_t *examined = sr_grow((void **)&f->examined, f->r->n, &f->examined_room, sizeof(*examined));

	if (!added || !examined)
		return NULL;
	*added = *r;
	*examined = 0;
	f->r->n++;
	return added;
}

static struct sr_race race_of(const struct finding *f, const struct sr_access *a, const struct sr_access *b)
{
	struct sr_race r = {.a = goes_first(a, b) ? *a : *b, .b = goes_first(a, b) ? *b : *a};

	r.begin = a->begin > b->begin ? a->begin : b->begin;
	r.end = a->end < b->end ? a->end : b->end;
	r.class = sr_race_class_of(f->r, a, b);
	r.stack_a = sr_race_stack_of(f->r, &r.a);
	r.stack_b = sr_race_stack_of(f->r, &r.b);
	return r;
}

static int keep_pair(struct finding *f, const struct sr_access *a, const struct sr_access *b, bool is_doubtful)
{
	const struct sr_access *all = f->r->run.model.accesses;
	struct sr_race_pair *at = sr_large_grow((void **)&f->pairs.all, f->pairs.n, &f->pairs.room, sizeof(*at));

	if (!at)
		return -ENOMEM;
	*at = (struct sr_race_pair){(uint32_t)(a - all), (uint32_t)(b - all), is_doubtful};
	f->pairs.n++;
	return 0;
}

static int index_pairs(struct finding *f)
{
	const struct sr_access *all = f->r->run.model.accesses;
	int err = 0;

	if (f->known.used)
		return 0;
	for (size_t i = 0; i < f->pairs.n && !err; i++)
		err = sr_keymap_put(&f->known, key_of_pair(f, &all[f->pairs.all[i].a], &all[f->pairs.all[i].b]), f->pairs.all[i].is_doubtful);
	return err;
}

/* Which of the races it is like; r->n: none. */
static size_t find_alike(const struct sr_races *r, const struct sr_race *found)
{
	size_t i = 0;

	while (i < r->n && !is_alike(&r->races[i], found))
		i++;
	return i;
}

static int take_found(void *argument, const struct sr_access *a, const struct sr_access *b, enum sr_surety unordered,
		      uint16_t doubts)
{
	struct finding *f = argument;
	struct sr_race found = race_of(f, a, b);
	struct sr_race *r = NULL;
	const size_t i = find_alike(f->r, &found);

	if (keep_pair(f, a, b, unordered == SR_SURE))
		return -ENOMEM;
	r = i < f->r->n ? &f->r->races[i] : add(f, &found);
	if (!r)
		return -ENOMEM;
	found.count = r->count + 1;
	if (!r->count || (r->evidence < SR_RACE_OBSERVED && f->examined[i] < EXAMINED)) {
		const int asked = weigh(f, &found, unordered, doubts);

		if (asked < 0)
			return asked;
		f->examined[i] += (uint32_t)asked;
		if (!r->count || found.evidence > r->evidence)
			*r = found;
	}
	r->count = found.count;
	return 0;
}

/* ---------------------------------------------- behind loads of earlier values */

/* One race for all pairs that are alike, with the one that is likeliest to be done: the program is run up to it once more. */
static int take_earlier(void *argument, const struct sr_race_earlier_pair *p)
{
	struct finding *f = argument;
	struct sr_races *r = f->r;
	struct sr_race found = race_of(f, p->is_cpu_first ? &p->cpu : &p->other, p->is_cpu_first ? &p->other : &p->cpu), *known;
	const size_t i = find_alike(r, &found);

	known = i < r->n ? &r->races[i] : NULL;
	found.skip = p->skip;
	found.skipped = &r->run.skipped[p->skipped];
	found.lead = p->lead;
	found.count = known ? known->count + 1 : 1;
	if (known && known->skip)
		known->count++;
	if (known && (!known->skip || known->lead >= found.lead))
		return 0;
	if (!sr_race_may_find(f->doubts, &r->run, p->skip, p->skipped))
		return 0;
	if (weigh(f, &found, p->unordered, p->doubts) < 0)
		return -ENOMEM;
	if (!known && !(known = add(f, &found)))
		return -ENOMEM;
	*known = found;
	return 0;
}

/* Only a replay tells which races are (sr_watches_try()). */
static int find_earlier(struct finding *f)
{
	const struct sr_race_earlier e = {.run = &f->r->run, .doubts = f->r->run.skips_n ? doubts_of(f) : NULL, .found = take_earlier, .origin = origin_of, .argument = f};

	if (!f->r->run.skips_n || !f->r->stacks)
		return 0;
	return e.doubts ? sr_race_find_earlier(&e) : -ENOMEM;
}

/* ----------------------------------------------------------------- locksets */

static bool is_found(const struct finding *f, const struct sr_race *found)
{
	return find_alike(f->r, found) < f->r->n;
}

static uint64_t key_of_race(struct finding *f, const struct sr_race *r)
{
	return (origin_of(f, &r->a) * 31 + origin_of(f, &r->b)) * 31 + r->class;
}

/* May another such pair be looked at?  -ENOMEM, 0 or 1. */
static int may_ask(struct finding *f, const struct sr_race *found)
{
	const uint64_t key = key_of_race(f, found);
	uint64_t n = 0;

	sr_keymap_get(&f->asked, key, &n);
	if (n >= ORDERED_MOST || f->moments > MOMENTS_MOST) {
		f->r->not_asked++;
		return 0;
	}
	f->moments += f->r->run.model.moments_n * f->r->how.links->ranks_n;
	return sr_keymap_put(&f->asked, key, n + 1) ? -ENOMEM : 1;
}

/*
 * Something orders them, but no lock that both have, and no barrier: Thrille's definition 4.  The race that it may be is
 * told once, by its first pair.
 */
static int take_ordered(void *argument, const struct sr_access *a, const struct sr_access *b)
{
	struct finding *f = argument;
	struct sr_race found = race_of(f, a, b), *r;
	int may;

	if (found.class == SR_RACE_SYNC || is_found(f, &found))
		return 0;
	may = doubts_of(f) ? may_ask(f, &found) : -ENOMEM;
	if (may <= 0 || sr_race_do_all_know(f->doubts, f->r->how.links->ranks_n, a, b))
		return may < 0 ? may : 0;
	found.count = 1;
	found.doubts = SR_DOUBT_LOCKSET;
	found.evidence = SR_RACE_POSSIBLE;
	found.severity = SR_RACE_NOTE;
	r = add(f, &found);
	return r ? 0 : -ENOMEM;
}

static int by_severity(const void *a, const void *b)
{
	const struct sr_race *r = a, *s = b;

	if (r->severity != s->severity)
		return r->severity > s->severity ? -1 : 1;
	if (r->evidence != s->evidence)
		return r->evidence > s->evidence ? -1 : 1;
	if (r->class != s->class)
		return r->class < s->class ? -1 : 1;
	if (r->a.site != s->a.site)
		return r->a.site < s->a.site ? -1 : 1;
	if (r->b.site != s->b.site)
		return r->b.site < s->b.site ? -1 : 1;
	if (r->a.kind != s->a.kind || r->b.kind != s->b.kind)
		return r->a.kind != s->a.kind ? r->a.kind - s->a.kind : r->b.kind - s->b.kind;
	if (r->stack_a != s->stack_a)
		return r->stack_a < s->stack_a ? -1 : 1;
	return (r->stack_b > s->stack_b) - (r->stack_b < s->stack_b);
}

/* ------------------------------------------------------------------- flags */

/* Does this access what the race's side does?  One function may post all requests of a program: its callers tell them apart. */
static bool is_side(const struct finding *f, const struct sr_access *side, const struct sr_access *a)
{
	return side->kind == a->kind && side->site == a->site && is_same_stack(side, sr_race_stack_of(f->r, side), sr_race_stack_of(f->r, a));
}

static bool is_loader(const struct sr_access *a)
{
	return a->kind == SR_ACCESS_LOAD || a->kind == SR_ACCESS_READ;
}

static const struct sr_access *load_of(const struct sr_race *r)
{
	return is_loader(&r->a) ? &r->a : &r->b;
}

static const struct sr_access *change_of(const struct sr_race *r)
{
	return is_loader(&r->a) ? &r->b : &r->a;
}

struct asked {
	const struct finding *f;
	const struct sr_race *race;
};

static bool is_change(const void *argument, const struct sr_access *a)
{
	const struct asked *q = argument;

	return is_side(q->f, change_of(q->race), a);
}

static bool is_load(const void *argument, const struct sr_access *a)
{
	const struct asked *q = argument;

	return is_side(q->f, load_of(q->race), a);
}

/* A change and a load of the words in question: what they may order is something else. */
static bool is_at_words(const struct asked *q, const struct sr_access *change, const struct sr_access *load)
{
	return change->kind == change_of(q->race)->kind && load->kind == load_of(q->race)->kind &&
	       (is_change(q, change) || is_load(q, load));
}

/*
 * READs that update words, and WRITE them again, order the WRITEs: that makes no flag of words whose WRITEs are a race in
 * other pairs.
 */
static bool is_of_known_race(const struct asked *q, const struct sr_access *a, const struct sr_access *b)
{
	const struct sr_race found = race_of(q->f, a, b);

	for (size_t i = 0; i < q->f->r->n; i++) {
		const struct sr_race *r = &q->f->r->races[i];

		if (r->evidence != SR_RACE_POSSIBLE && has_same_sites(r, &found) && has_same_stacks(r, &found))
			return true;
	}
	return false;
}

/* Another flag, whose changes and loads are unordered anyway, in other pairs: that one more of them is, is no use of this word. */
static bool is_of_known_flag(const struct asked *q, const struct sr_access *a, const struct sr_access *b)
{
	return sr_race_class_of(q->f->r, a, b) == SR_RACE_SYNC && is_of_known_race(q, a, b);
}

/*
 * What a READ found may order what the reader changes behind it: that is what flags are for.  (Two values that are read one after
 * the other order each other's READs, too; and other flags that are waited for, as those of a barrier, are raised behind any READ.)
 */
static bool is_behind_read(const struct asked *q, const struct sr_access *a, const struct sr_access *b)
{
	const bool is_awaited_flag = sr_race_class_of(q->f->r, a, b) == SR_RACE_SYNC && (a->is_polled || b->is_polled || b->kind == SR_ACCESS_ATOMIC);

	return (b->kind == SR_ACCESS_WRITE || b->kind == SR_ACCESS_ATOMIC) && !is_awaited_flag;
}

/* That a READ found what a CPU had stored is doubtful as a rule: then the pair is known, but was doubtful, and is no more. */
static bool is_known(const void *argument, const struct sr_access *a, const struct sr_access *b, enum sr_surety unordered)
{
	const struct asked *q = argument;
	const bool is_read = load_of(q->race)->kind == SR_ACCESS_READ;
	uint64_t was_doubtful;

	if (is_at_words(q, a, b) || is_at_words(q, b, a))
		return true;
	if (sr_keymap_get(&q->f->known, key_of_pair(q->f, a, b), &was_doubtful) && !(is_read && was_doubtful && unordered != SR_SURE))
		return true;
	if (is_of_known_flag(q, a, b))
		return true;
	return is_read && (unordered == SR_SURE || !is_behind_read(q, a, b) || is_of_known_race(q, a, b));
}

/* Would it have been seen that the rank waits? */
static bool is_watched(const struct sr_races *r, uint32_t rank)
{
	return r->how.watches && !r->how.watches->are_partial && !(r->how.watches->doubts[rank] & SR_DOUBT_REPLAY);
}

/*
 * Is it a load that nobody was seen waiting at?  What atomics change is a counter or a lock: a load that finds it as it
 * has to be at once does not wait, but would have.
 */
static bool may_be_data(const struct sr_races *r, const struct sr_race *s)
{
	return s->class == SR_RACE_SYNC && load_of(s)->kind == SR_ACCESS_LOAD && is_watched(r, load_of(s)->rank) &&
	       !load_of(s)->is_polled && change_of(s)->kind != SR_ACCESS_ATOMIC;
}

/* Is it a READ of a word, of which the READs were not seen to wait for a change?  One may have been enough. */
static bool may_be_flag(const struct sr_race *s)
{
	return s->class == SR_RACE_DATA && sr_race_may_be_flag(change_of(s), load_of(s));
}

const struct sr_access *sr_race_load_to_try(const struct sr_races *r, const struct sr_race *s)
{
	const struct sr_access *load = load_of(s);

	if (s->class != SR_RACE_DATA || s->severity == SR_RACE_NOTE || !is_watched(r, load->rank) || !load->pc ||
	    load->site_is != SR_SITE_INSTRUCTION || load->end - load->begin > SR_WATCH_TRIAL_MOST)
		return NULL;
	return sr_race_may_be_awaited(change_of(s), load) ? load : NULL;
}

/* Words that nobody waits for, and that order nothing else, are data. */
static int find_flags(struct finding *f)
{
	struct sr_races *r = f->r;
	size_t asked = 0;
	int ret = 0;

	for (size_t i = 0; i < r->n && !ret; i++) {
		struct sr_race *s = &r->races[i];
		const struct asked q = {f, s};
		struct sr_race_flag flag = {.is_change = is_change, .is_load = is_load, .is_known = is_known, .argument = &q};

		if (s->evidence == SR_RACE_POSSIBLE || !(may_be_data(r, s) || may_be_flag(s)) || asked++ >= FLAGS_ASKED)
			continue;
		ret = index_pairs(f);
		if (!ret)
			ret = sr_race_find_flag(&r->run.model, &flag);
		s->class = ret || flag.is_flag ? SR_RACE_SYNC : SR_RACE_DATA;
		s->severity = sr_race_severity_of(s);
	}
	return ret;
}

static uint64_t stack_of(const void *argument, const struct sr_access *a)
{
	return sr_race_stack_of(argument, a);
}

/* Once they are sorted, so that the most severe ones have them. */
static int find_bounds(struct finding *f)
{
	struct sr_races *r = f->r;
	uint64_t moments = 0;

	for (size_t i = 0; i < r->n; i++) {
		struct sr_race *s = &r->races[i];

		moments += 4 * r->run.model.moments_n;
		if (moments > BOUNDS_MOMENTS_MOST)
			return 0;
		if (!doubts_of(f))
			return -ENOMEM;
		sr_race_find_bounds(f->doubts, &s->a, &s->b, &s->bounds);
		s->has_bounds = true;
	}
	return 0;
}

static int search(struct sr_races *r)
{
	struct finding f = {.r = r};
	struct sr_sweep sweep = {.found = take_found, .origin = origin_of, .argument = &f, .threads = r->how.threads};
	int ret;

	if (r->how.predict == SR_PREDICT_LOCKSET)
		sweep.ordered = take_ordered;
	sr_model_sort(&r->run.model);
	if (r->how.threads > 1)
		sr_race_doubts_begin(&f.making, &r->run);
	ret = sr_race_find_polls(&r->run.model, stack_of, r);
	if (!ret)
		ret = sr_sweep(&r->run.model, &sweep);
	if (!f.doubts)
		f.doubts = sr_race_doubts_end(&f.making); /* the model changes again */
	if (!ret)
		sr_races_explain_changes(r);
	if (!ret)
		ret = find_earlier(&f);
	if (!ret)
		ret = find_flags(&f);
	if (!ret && r->how.consistency)
		ret = sr_consistency_observed(&r->consistency, &r->run, origin_of, &f);
	if (!ret && r->how.consistency && !doubts_of(&f))
		ret = -ENOMEM;
	if (!ret && r->how.consistency)
		ret = sr_consistency_possible(&r->consistency, &r->run, f.doubts, &f.pairs, origin_of, &f);
	r->pairs = sweep.pairs;
	r->dropped = sweep.dropped;
	if (r->n)
		qsort(r->races, r->n, sizeof(*r->races), by_severity);
	if (!ret)
		ret = find_bounds(&f);
	sr_race_doubts_free(f.doubts);
	free(f.examined);
	sr_large_free(f.pairs.all, f.pairs.room, sizeof(*f.pairs.all));
	sr_keymap_free(&f.known);
	sr_keymap_free(&f.asked);
	return ret;
}

int sr_races_find(struct sr_races *r, struct sr_error *err)
{
	int ret = sr_race_collect(&r->run, &r->how, err);

	if (ret)
		return ret;
	r->accesses = r->run.model.accesses_n;
	r->moments = r->run.model.moments_n;
	r->orders = r->run.model.orders_n;
	ret = search(r);
	return ret ? sr_error_set(err, ret, "no memory left") : 0;
}

void sr_races_free(struct sr_races *r)
{
	free(r->races);
	sr_consistency_free(&r->consistency);
	sr_race_run_free(&r->run);
	*r = (struct sr_races){.how = r->how, .stacks = r->stacks};
}
