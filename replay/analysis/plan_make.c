/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/plan_make.h"
#include "replay/analysis/plan/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "logd/trace/read_trace.h"
#include "replay/analysis/process/ledger.h"
#include "replay/analysis/traffic.h"
#include "logd/base/opcodes.h"

/* How much of the work the first pass is. */
#define FIRST_PASS 0.3

/* The check that is growing, for one rank's writes and another's values. */
struct pending {
	struct sr_plan_check check;
	uint64_t step;
};

struct maker {
	struct sr_trace *t;
	struct sr_links links;
	size_t n;
	bool *group;      /* by rank */
	int32_t *numbers; /* of the group */
	size_t numbers_n;
	uint64_t identity, group_hash;
	char dir[PATH_MAX - 64];    /* the draft */
	struct sr_keymap *files;    /* by rank: (kind, thread) to a struct sr_plan_file */
	struct sr_plan_file **list; /* all of them */
	size_t list_n, list_room;
	struct sr_ledger **wakes;    /* [whose call][who waits] */
	struct sr_ledger **checks;   /* [whose writes][whose values] */
	struct sr_ledger **requests; /* by rank */
	struct pending *pending;     /* as checks */
	bool *wrote;                 /* [who][to whom], the outside behind the ranks */
	struct sr_traffic traffic;
	uint64_t checks_dropped;
	void (*progress)(double done);
};

/* ------------------------------------------------------------------- files */

static struct sr_plan_file *file_of(struct maker *m, enum sr_plan_kind kind, size_t rank,
				    uint32_t thread)
{
	uint64_t key = (uint64_t)kind << 32 | thread, value;
	struct sr_plan_file *f;

	if (sr_keymap_get(&m->files[rank], key, &value))
		return (struct sr_plan_file *)(uintptr_t)value;
	if (m->list_n == m->list_room) {
		size_t room = m->list_room ? 2 * m->list_room : 64;
		struct sr_plan_file **more = realloc(m->list, room * sizeof(*more));

		if (!more)
			return NULL;
		m->list = more;
		m->list_room = room;
	}
	f = sr_plan_file_new(m->dir, kind, m->links.ranks[rank].number, thread);
	if (!f || sr_keymap_put(&m->files[rank], key, (uintptr_t)f)) {
		sr_plan_file_abandon(f);
		return NULL;
	}
	m->list[m->list_n++] = f;
	return f;
}

static int add(struct maker *m, enum sr_plan_kind kind, size_t rank, uint32_t thread,
	       const void *record)
{
	struct sr_plan_file *f = file_of(m, kind, rank, thread);

	return f ? sr_plan_file_add(f, record) : -ENOMEM;
}

static int add_to_ledger(struct maker *m, struct sr_ledger **ledgers, size_t at, const char *what,
			 size_t bytes, uint64_t key, const void *record)
{
	char name[64];

	if (!ledgers[at]) {
		snprintf(name, sizeof(name), "%s.%zu", what, at);
		ledgers[at] = sr_ledger_new(m->dir, name, bytes);
	}
	return ledgers[at] ? sr_ledger_add(ledgers[at], key, record) : -ENOMEM;
}

/* -------------------------------------------------------------- what is found */

static int take_order(void *argument, const struct sr_found_order *o)
{
	struct maker *m = argument;
	const struct sr_plan_wait wait = {.sn = o->at.sn,
					  .for_sn = o->of.sn,
					  .for_rank = m->links.ranks[o->of_rank].number,
					  .for_thread = o->of.thread,
					  .flags = o->flags,
					  .fault = o->at.fault};
	const struct {
		struct sr_plan_wake wake;
		uint64_t thread;
	} wake = {{.sn = o->of.sn,
		   .their_sn = o->at.sn,
		   .their_rank = m->links.ranks[o->rank].number,
		   .their_thread = o->at.thread,
		   .flags = o->flags,
		   .their_fault = o->at.fault},
		  o->of.thread};
	int err = add(m, SR_PLAN_WAIT, o->rank, o->at.thread, &wait);

	return err ? err
		   : add_to_ledger(m, m->wakes, o->of_rank * m->n + o->rank, "wake", sizeof(wake),
				   o->of.step, &wake);
}

static size_t column(const struct maker *m, size_t to)
{
	return to == SR_NO_RANK ? m->n : to;
}


static int take_posted(void *argument, const struct sr_posted *p)
{
	struct maker *m = argument;

	if (sr_op(p->opcode) & SR_OP_CHANGES)
		m->wrote[p->rank * (m->n + 1) + column(m, p->to)] = true;
	if (m->group[p->rank])
		sr_traffic_add(&m->traffic, p->rank, column(m, p->to), p->opcode, p->length);
	return 0;
}

/* A check record with the thread that it is for. */
struct check_for {
	struct sr_plan_check check;
	uint64_t thread;
};

static int add_check(struct maker *m, size_t whose, size_t values, const struct sr_plan_check *c,
		     uint32_t thread, uint64_t step)
{
	return add_to_ledger(m, m->checks, whose * m->n + values, "check", sizeof(struct check_for),
			     step, &(struct check_for){*c, thread});
}

static int flush_pending(struct maker *m, size_t whose, size_t values)
{
	struct pending *p = &m->pending[whose * m->n + values];
	uint64_t step = p->step;

	p->step = 0;
	if (!step)
		return 0;
	/* The thread is kept where a check of this kind has nothing. */
	return add_check(m, whose, values,
			 &(struct sr_plan_check){.sn = p->check.sn,
						 .their_sn = p->check.their_sn,
						 .their_rank = p->check.their_rank,
						 .their_thread = p->check.their_thread,
						 .flags = p->check.flags,
						 .their_fault = p->check.their_fault},
			 p->check.reserved, step);
}

static struct sr_plan_check check_of(const struct maker *m, const struct sr_value *v,
				     const struct sr_position *whose)
{
	return (struct sr_plan_check){.sn = whose->sn,
				      .their_sn = v->at.sn,
				      .their_rank = m->links.ranks[v->rank].number,
				      .their_thread = v->at.thread,
				      .flags = v->flags,
				      .their_fault = v->at.fault};
}

/* Algorithm 3: the value grows the check behind the last known call of `whose`. */
static int compare_later(struct maker *m, size_t whose, const struct sr_value *v)
{
	struct pending *p = &m->pending[whose * m->n + v->rank];
	const struct sr_position *known = &v->known[whose];
	int err = 0;

	if (p->step && (p->check.sn != known->sn || p->check.reserved != known->thread ||
			p->check.their_thread != v->at.thread))
		err = flush_pending(m, whose, v->rank);
	p->check = check_of(m, v, known);
	p->check.reserved = known->thread;
	p->step = known->step;
	return err;
}

/* Whose memory it was in before, as a column. */
static size_t memory_of(const struct maker *m, const struct sr_value *v)
{
	return v->is_exposed ? v->rank : column(m, v->from);
}

static int take_value(void *argument, const struct sr_value *v)
{
	struct maker *m = argument;
	struct sr_plan_check exact;
	size_t memory = memory_of(m, v);
	int err = 0;

	if (!m->group[v->rank])
		return 0;
	if (v->is_message) {
		if (!m->group[v->from])
			return 0;
		exact = check_of(m, v, &v->sent);
		exact.flags |= SR_PLAN_EXACT;
		exact.request = v->request;
		exact.completion = v->completion;
		return add_check(m, v->from, v->rank, &exact, v->sent.thread, v->sent.step);
	}
	for (size_t i = 0; i < m->n && !err; i++)
		if (i != v->rank && m->group[i] && v->known[i].step &&
		    (i == memory || m->wrote[i * (m->n + 1) + memory]))
			err = compare_later(m, i, v);
	return err;
}

static int32_t peer_number(const struct maker *m, size_t rank)
{
	return rank == SR_NO_RANK || !m->group[rank] ? SR_RANK_OUTSIDE
						     : m->links.ranks[rank].number;
}

/* A request record with the thread that it is for. */
struct request_for {
	struct sr_plan_request request;
	uint64_t thread;
};

static int take_fetched(void *argument, const struct sr_fetched *f)
{
	struct maker *m = argument;
	const struct request_for r = {{.sn = f->posted.sn,
				       .completed_sn = f->completed.sn,
				       .completed_thread = f->completed.thread,
				       .request = f->request,
				       .completion = f->completion,
				       .peer = peer_number(m, f->from),
				       .flags = f->flags},
				      f->posted.thread};

	if (!m->group[f->rank])
		return 0;
	return add_to_ledger(m, m->requests, f->rank, "request", sizeof(r), f->posted.step, &r);
}

static int take_places(void *argument, int32_t number, uint32_t thread,
		       const struct sr_stream_place *places, size_t n)
{
	struct maker *m = argument;
	size_t rank = 0;
	int err = 0;

	while (m->links.ranks[rank].number != number)
		rank++;
	for (size_t i = 0; i < n && m->group[rank] && !err; i++)
		err = add(m, SR_PLAN_PLACE, rank, thread,
			  &(struct sr_plan_place){.sn = places[i].sn,
						  .offset = places[i].offset,
						  .ring_position = places[i].ring_position});
	return err;
}

static int put_peers(struct maker *m)
{
	int err = 0;

	for (size_t rank = 0; rank < m->n && !err; rank++)
		for (size_t i = 0; i < m->links.ranks[rank].ends_n && !err; i++) {
			const struct sr_end *e = &m->links.ends[m->links.ranks[rank].ends[i]];
			const struct sr_end *o =
			    e->peer == SR_NO_END ? NULL : &m->links.ends[e->peer];

			if (m->group[rank])
				err = add(m, SR_PLAN_PEER, rank, e->thread,
					  &(struct sr_plan_peer){
					      .sn = e->sn,
					      .qp = e->qp,
					      .qp_num = e->qp_num,
					      .peer_qp_num = e->peer_qp_num,
					      .peer_qp = o ? o->qp : 0,
					      .peer = peer_number(m, o ? o->rank : SR_NO_RANK),
					      .flags = e->ambiguous ? SR_PLAN_AMBIGUOUS : 0});
		}
	return err;
}

/* --------------------------------------------------- ledgers become files */

/* The heads of some ledgers, and the lowest of them. */
struct merge {
	struct sr_ledger **ledgers;
	size_t n, bytes;
	uint64_t *keys; /* UINT64_MAX: at its end */
	uint8_t *records;
};

static int pull(struct merge *g, size_t i)
{
	int got = g->ledgers[i]
		      ? sr_ledger_next(g->ledgers[i], &g->keys[i], g->records + i * g->bytes)
		      : 0;

	if (!got)
		g->keys[i] = UINT64_MAX;
	return got < 0 ? got : 0;
}

/*
 * Takes all records out of the ledgers, ascending, and gives them to the file of
 * their thread, whose number is the last 8 bytes of each.
 */
static int merge(struct maker *m, struct sr_ledger **ledgers, size_t n, enum sr_plan_kind kind,
		 size_t rank)
{
	size_t bytes = sr_plan_record_bytes(kind) + sizeof(uint64_t);
	struct merge g = {ledgers, n, bytes, calloc(n, sizeof(uint64_t)), calloc(n, bytes)};
	int err = g.keys && g.records ? 0 : -ENOMEM;
	uint64_t thread;

	for (size_t i = 0; i < n && !err; i++)
		err = pull(&g, i);
	while (!err) {
		size_t least = 0;

		for (size_t i = 1; i < n; i++)
			if (g.keys[i] < g.keys[least])
				least = i;
		if (g.keys[least] == UINT64_MAX)
			break;
		memcpy(&thread, g.records + (least + 1) * bytes - sizeof(thread), sizeof(thread));
		err = add(m, kind, rank, (uint32_t)thread, g.records + least * bytes);
		if (!err)
			err = pull(&g, least);
	}
	for (size_t i = 0; i < n; i++) {
		m->checks_dropped += ledgers[i] ? sr_ledger_dropped(ledgers[i]) : 0;
		sr_ledger_free(ledgers[i]);
		ledgers[i] = NULL;
	}
	free(g.keys);
	free(g.records);
	return err;
}

static int merge_all(struct maker *m)
{
	int err = 0;

	for (size_t i = 0; i < m->n * m->n && !err; i++)
		err = flush_pending(m, i / m->n, i % m->n);
	for (size_t i = 0; i < m->n && !err; i++) {
		err = merge(m, m->wakes + i * m->n, m->n, SR_PLAN_WAKE, i);
		if (!err)
			err = merge(m, m->checks + i * m->n, m->n, SR_PLAN_CHECK, i);
		if (!err)
			err = merge(m, m->requests + i, 1, SR_PLAN_REQUEST, i);
	}
	return err;
}

/* ------------------------------------------------------------ the directory */

static void remove_in(int at, const char *name)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (unlinkat(fd, e->d_name, 0) && errno == EISDIR)
			remove_in(fd, e->d_name);
	}
	if (d)
		closedir(d);
	unlinkat(at, name, AT_REMOVEDIR);
}

void sr_plan_remove(const char *dir)
{
	remove_in(AT_FDCWD, dir);
}

/* The draft takes the place of what is there. */
static int put_in_place(const struct maker *m)
{
	char plan[PATH_MAX], old[PATH_MAX];

	snprintf(plan, sizeof(plan), "%s/plan", sr_trace_dir(m->t));
	if (!rename(m->dir, plan))
		return 0;
	if (errno != ENOTEMPTY && errno != EEXIST)
		return -errno;
	snprintf(old, sizeof(old), "%s/.plan-old.%d", sr_trace_dir(m->t), getpid());
	if (rename(plan, old) || rename(m->dir, plan))
		return -errno;
	sr_plan_remove(old);
	return 0;
}

static json_t *group_list(const struct maker *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->numbers_n; i++)
		json_array_append_new(list, json_integer(m->numbers[i]));
	return list;
}

static int put_summary(struct maker *m, const struct sr_process_counts *c)
{
	char path[PATH_MAX], identity[17];
	json_t *json;
	int err;

	snprintf(path, sizeof(path), "%s/plan.json", m->dir);
	snprintf(identity, sizeof(identity), "%016llx", (unsigned long long)m->identity);
	json = json_pack(
	    "{s:s, s:i, s:s, s:o, s:{s:I, s:I, s:I, s:I, s:I}, s:{s:I, s:I, s:I, s:I, "
	    "s:I, s:I}, s:o}",
	    "format", "sreplay-plan", "version", SR_PLAN_VERSION, "trace", identity, "group",
	    group_list(m), "counts", "records", (json_int_t)c->records, "values",
	    (json_int_t)c->values, "value_bytes", (json_int_t)c->bytes, "orders",
	    (json_int_t)c->orders, "messages", (json_int_t)c->messages, "doubts", "ambiguous_links",
	    (json_int_t)c->ambiguous_links, "unmatched_receives", (json_int_t)c->unmatched,
	    "unexpected_completions", (json_int_t)c->unexpected, "weakened_orders",
	    (json_int_t)c->weakened, "missing_calls", (json_int_t)c->holes, "dropped_checks",
	    (json_int_t)m->checks_dropped, "traffic", sr_traffic_json(&m->traffic, &m->links));
	if (!json)
		return -ENOMEM;
	err = json_dump_file(json, path, JSON_INDENT(1)) ? -EIO : 0;
	json_decref(json);
	return err;
}

static int finish_files(struct maker *m)
{
	int err = 0;

	for (size_t i = 0; i < m->list_n; i++) {
		int its = sr_plan_file_finish(m->list[i], m->identity, m->group_hash);

		err = err ? err : its;
	}
	m->list_n = 0;
	return err;
}

/* --------------------------------------------------------------------- all */

static void first_pass_progress(void *argument, uint64_t done, uint64_t size)
{
	const struct maker *m = argument;

	if (m->progress)
		m->progress(FIRST_PASS * (double)done / (double)(size ? size : 1));
}

static void second_pass_progress(void *argument, uint64_t done, uint64_t size)
{
	const struct maker *m = argument;

	if (m->progress)
		m->progress(FIRST_PASS +
			    (1 - FIRST_PASS) * (double)done / (double)(size ? size : 1));
}

static int by_number(const void *a, const void *b)
{
	const int32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static int choose_group(struct maker *m, const int32_t *group, size_t n, struct sr_error *err)
{
	m->n = sr_trace_ranks(m->t);
	m->group = calloc(m->n + 1, sizeof(*m->group));
	m->numbers = calloc(m->n + n + 1, sizeof(*m->numbers));
	if (!m->group || !m->numbers)
		return sr_error_set(err, -ENOMEM, "no memory left");
	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < m->n && sr_trace_rank_number(m->t, k) != group[i])
			k++;
		if (k == m->n)
			return sr_error_set(err, -ENOENT, "%s has no rank %d", sr_trace_dir(m->t),
					    group[i]);
		m->group[k] = true;
	}
	for (size_t k = 0; k < m->n; k++) {
		m->group[k] |= !n;
		if (m->group[k])
			m->numbers[m->numbers_n++] = sr_trace_rank_number(m->t, k);
	}
	qsort(m->numbers, m->numbers_n, sizeof(*m->numbers), by_number);
	m->group_hash = sr_plan_group_hash(m->numbers, m->numbers_n);
	return 0;
}

static int prepare(struct maker *m, struct sr_error *err)
{
	size_t squares = m->n * m->n + 1;

	snprintf(m->dir, sizeof(m->dir), "%s/.plan.%d", sr_trace_dir(m->t), getpid());
	sr_plan_remove(m->dir);
	if (mkdir(m->dir, 0777))
		return sr_error_set(err, -errno, "cannot make a plan in %s: %s", sr_trace_dir(m->t),
				    strerror(errno));
	m->files = calloc(m->n + 1, sizeof(*m->files));
	m->wakes = calloc(squares, sizeof(struct sr_ledger *));
	m->checks = calloc(squares, sizeof(struct sr_ledger *));
	m->requests = calloc(m->n + 1, sizeof(struct sr_ledger *));
	m->pending = calloc(squares, sizeof(*m->pending));
	m->wrote = calloc(m->n * (m->n + 1) + 1, sizeof(*m->wrote));
	if (!m->files || !m->wakes || !m->checks || !m->requests || !m->pending || !m->wrote ||
	    sr_traffic_init(&m->traffic, m->n))
		return sr_error_set(err, -ENOMEM, "no memory left");
	return sr_plan_identity(m->t, &m->identity, err);
}

static void free_ledgers(struct sr_ledger **ledgers, size_t n)
{
	for (size_t i = 0; ledgers && i < n; i++)
		sr_ledger_free(ledgers[i]);
	free(ledgers);
}

static void clean_up(struct maker *m)
{
	for (size_t i = 0; i < m->list_n; i++)
		sr_plan_file_abandon(m->list[i]);
	for (size_t i = 0; m->files && i < m->n; i++)
		sr_keymap_free(&m->files[i]);
	free_ledgers(m->wakes, m->n * m->n);
	free_ledgers(m->checks, m->n * m->n);
	free_ledgers(m->requests, m->n);
	sr_links_free(&m->links);
	sr_traffic_free(&m->traffic);
	free(m->list);
	free(m->files);
	free(m->pending);
	free(m->wrote);
	free(m->group);
	free(m->numbers);
	if (m->dir[0])
		sr_plan_remove(m->dir);
}

/* Files of the draft. */
static int write_plan(struct maker *m, const struct sr_process_counts *counts, struct sr_error *err)
{
	int ret = put_peers(m);

	if (!ret)
		ret = merge_all(m);
	if (!ret)
		ret = finish_files(m);
	if (!ret)
		ret = put_summary(m, counts);
	if (!ret)
		ret = put_in_place(m);
	if (ret)
		sr_error_set(err, ret, "cannot write the plan of %s: %s", sr_trace_dir(m->t),
			     strerror(-ret));
	return ret;
}

int sr_plan_make(struct sr_trace *t, const int32_t *group, size_t n, void (*progress)(double done),
		 struct sr_process_counts *counts, struct sr_error *err)
{
	struct maker m = {.t = t, .progress = progress};
	const struct sr_links_hooks first = {first_pass_progress, take_places, &m};
	const struct sr_process_hooks second = {.order = take_order,
						.posted = take_posted,
						.value = take_value,
						.fetched = take_fetched,
						.progress = second_pass_progress,
						.argument = &m};
	int ret = choose_group(&m, group, n, err);

	if (!ret)
		ret = prepare(&m, err);
	if (!ret)
		ret = sr_links_find(&m.links, t, &first, err);
	if (!ret)
		ret = sr_process(t, &m.links, m.group, &second, counts, err);
	if (!ret)
		ret = write_plan(&m, counts, err);
	clean_up(&m);
	return ret;
}
