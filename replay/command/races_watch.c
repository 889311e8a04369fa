/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/races_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/analysis/races/skips.h"
#include "replay/command/command.h"

struct watching {
	struct sr_race_watches *s;
	struct sr_race_stacks *stacks;
	const struct sr_race_collecting *how;
	const char *dir;
	unsigned int jobs; /* replays at once */
};

/* A file without a name, which nobody has to remove.  The path leads to it as long as it is open here. */
struct unnamed {
	int fd;
	char path[48];
};

/* A rank's replay, and its files. */
struct watched_rank {
	struct unnamed file, verdict, stacks, said; /* said: its standard error */
	pid_t child; /* 0: it has ended, or has not begun */
	int failed;  /* -errno */
};

/* More loads than that are not tried. */
#define TRIALS_MOST 16
/* Seconds without a call: the program waits by a load that is not watched. */
#define TRIAL_TIMEOUT "5"

static int open_unnamed(struct unnamed *u)
{
	const char *tmp = getenv("TMPDIR");
	char name[64];

	snprintf(name, sizeof(name), "%s/sreplay-races-XXXXXX", tmp && *tmp && strlen(tmp) < 32 ? tmp : "/tmp");
	u->fd = mkostemp(name, O_CLOEXEC);
	if (u->fd < 0)
		return -errno;
	unlink(name);
	snprintf(u->path, sizeof(u->path), "/proc/%d/fd/%d", (int)getpid(), u->fd);
	return 0;
}

static void close_files(struct watched_rank *r)
{
	struct unnamed *all[] = {&r->file, &r->verdict, &r->stacks, &r->said};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		if (all[i]->fd >= 0)
			close(all[i]->fd);
		all[i]->fd = -1;
	}
}

static int open_files(struct watched_rank *r)
{
	int ret;

	r->file.fd = r->verdict.fd = r->stacks.fd = r->said.fd = -1;
	if ((ret = open_unnamed(&r->file)) || (ret = open_unnamed(&r->verdict)) || (ret = open_unnamed(&r->stacks)) ||
	    (ret = open_unnamed(&r->said)))
		close_files(r);
	return ret;
}

static int32_t number_of(const struct watching *w, size_t rank)
{
	return w->how->links->ranks[rank].number;
}

static const char *name_of(const struct sr_race_collecting *how, size_t rank)
{
	return how->links->ranks[rank].name;
}

/* The child: replays one rank, and keeps what it says to itself.  It ends with its parent. */
static void __attribute__((noreturn)) run_replay(const char *dir, const struct watched_rank *r, int32_t rank, const char *timeout)
{
	const char *words[16] = {"sreplay", "replay", "--quiet", "--json", r->verdict.path, "--watch", r->file.path, "--stacks", r->stacks.path};
	int nothing = open("/dev/null", O_RDWR), n = 9;
	char number[16];

	snprintf(number, sizeof(number), "%d", rank);
	words[n++] = "--rank";
	words[n++] = number;
	if (timeout) {
		words[n++] = "--timeout";
		words[n++] = timeout;
	}
	words[n] = dir;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(nothing, STDIN_FILENO);
	dup2(nothing, STDOUT_FILENO);
	dup2(r->said.fd, STDERR_FILENO);
	execv("/proc/self/exe", (char **)words);
	_exit(SR_EXIT_FAILED);
}

/* A child has a trace of its own, in which it has its rank's number. */
static void start_replay(const struct sr_race_collecting *how, size_t rank, struct watched_rank *r, const char *timeout)
{
	const int32_t number = how->links->ranks[rank].number;

	r->child = fork();
	if (!r->child)
		run_replay(sr_trace_rank_dir(how->trace, number), r, sr_trace_recorded_rank(how->trace, number), timeout);
	if (r->child < 0) {
		r->failed = -errno;
		r->child = 0;
	}
}

/* The verdict on the rank's last image. */
static bool was_exact(const struct watched_rank *r)
{
	FILE *f = fopen(r->verdict.path, "r");
	char *line = NULL;
	size_t room = 0;
	bool exact = false;

	while (f && getline(&line, &room, f) >= 0) {
		json_t *v = json_loads(line, 0, NULL);
		const char *word = json_string_value(json_object_get(v, "verdict"));

		exact = word && !strcmp(word, "exact");
		json_decref(v);
	}
	free(line);
	if (f)
		fclose(f);
	return exact;
}

/* The last line that it said; "" if there is none.  The caller's to free. */
static char *last_words(const struct watched_rank *r)
{
	FILE *f = fopen(r->said.path, "r");
	char *line = NULL;
	size_t room = 0;

	while (f && getline(&line, &room, f) >= 0)
		line[strcspn(line, "\n")] = '\0';
	if (f)
		fclose(f);
	return line ? line : strdup("");
}

static void say_doubt(const struct watching *w, size_t rank, const struct watched_rank *r)
{
	char *words = last_words(r), *reason = words && !strncmp(words, "sreplay: ", 9) ? words + 9 : words;

	sr_note("the replay of rank %s is not exact: races of its loads and stores are no more than possible%s%s%s", name_of(w->how, rank),
		reason && *reason ? " (" : "", reason ? reason : "", reason && *reason ? ")" : "");
	free(words);
}

/* Says what is to be watched, and starts the replay. */
static void start(const struct watching *w, const struct sr_race_model *m, size_t rank, struct watched_rank *r)
{
	int ranges = open_files(r);

	if (!ranges)
		ranges = sr_race_watches_ask(m, (uint32_t)rank, r->file.path);
	if (ranges < 0)
		r->failed = ranges;
	else
		start_replay(w->how, rank, r, NULL);
}

static void wait_for(struct watched_rank *r)
{
	int status;

	while (r->child && waitpid(r->child, &status, 0) < 0)
		if (errno != EINTR) {
			r->failed = -errno;
			break;
		}
	r->child = 0;
}

/* What a replay that has ended found.  0 or -errno. */
static int take(struct watching *w, size_t rank, struct watched_rank *r)
{
	const int32_t number = number_of(w, rank);
	const uint32_t *threads;
	int ret = r->failed;

	if (!ret && !was_exact(r)) {
		say_doubt(w, rank, r);
		w->s->doubts[rank] |= SR_DOUBT_REPLAY;
	}
	if (sr_trace_threads(w->how->trace, number, &threads) > 1)
		w->s->doubts[rank] |= SR_DOUBT_THREADS;
	if (!ret)
		ret = sr_race_watches_read(w->s, (uint32_t)rank, r->file.path);
	if (!ret)
		ret = sr_race_stacks_read(w->stacks, (uint32_t)rank, r->stacks.path);
	close_files(r);
	return ret;
}

/* Some replays at once; what they found is taken rank by rank, so that it comes in the same order each time. */
static int watch_ranks(struct watching *w, const struct sr_race_model *m)
{
	const size_t n = w->how->links->ranks_n;
	struct watched_rank *ranks = calloc(n + 1, sizeof(*ranks));
	size_t started = 0;
	int ret = 0, failed;

	if (!ranks)
		return sr_fail("no memory left");
	for (size_t i = 0; i < n; i++) {
		for (; started < n && started < i + w->jobs; started++)
			start(w, m, started, &ranks[started]);
		wait_for(&ranks[i]);
		failed = take(w, i, &ranks[i]);
		if (failed && !ret)
			ret = sr_fail("what rank %s accesses cannot be found: %s", name_of(w->how, i), strerror(-failed));
	}
	free(ranks);
	return ret;
}

static bool watch_all(struct watching *w)
{
	struct sr_race_run run;
	struct sr_error err;
	int ret = sr_race_collect(&run, w->how, &err);

	if (ret)
		sr_fail("%s", err.text);
	else
		ret = watch_ranks(w, &run.model);
	sr_race_stacks_sort(w->stacks);
	if (!ret && (ret = sr_race_watches_sort(w->s)))
		sr_fail("no memory left");
	sr_race_run_free(&run);
	return !ret;
}

bool sr_watches_find(struct sr_race_watches *s, struct sr_race_stacks *stacks, const struct sr_race_collecting *how,
		     const char *dir, unsigned int jobs)
{
	struct watching w = {.s = s, .stacks = stacks, .how = how, .dir = dir, .jobs = jobs};

	*s = (struct sr_race_watches){.doubts = calloc(how->links->ranks_n + 1, sizeof(*s->doubts))};
	if (!s->doubts)
		return sr_fail("no memory left"), false;
	return watch_all(&w);
}

/* ------------------------------------------------------------------- trials */

/* Another replay of a rank, which has left its recording at a load: whether it was exact is no question. */
static int run_trial(struct sr_race_watches *s, const struct sr_race_collecting *how, const char *dir, struct watched_rank *r, uint32_t rank)
{
	start_replay(how, rank, r, TRIAL_TIMEOUT);
	wait_for(r);
	return r->failed ? r->failed : sr_race_watches_read(s, rank, r->file.path);
}

static int try_load(struct sr_race_watches *s, const struct sr_race_collecting *how, const char *dir, const struct sr_access *load)
{
	struct watched_rank r = {0};
	int ret = open_files(&r);

	if (!ret)
		ret = sr_race_watches_try(load, r.file.path);
	if (!ret)
		ret = run_trial(s, how, dir, &r, load->rank);
	close_files(&r);
	return ret;
}

/* Does the program come to the access, if the load in front of it finds an earlier WRITE?  -errno, 0 or 1. */
static int try_skip(struct sr_race_watches *s, const struct sr_race_collecting *how, const char *dir, const struct sr_race *race)
{
	const bool is_a = race->a.kind == SR_ACCESS_LOAD || race->a.kind == SR_ACCESS_STORE;
	const struct sr_access *wanted = is_a ? &race->a : &race->b;
	const struct sr_race_skip *k = race->skip;
	struct sr_watch_trial trial = {.sn = k->sn,
				       .address = k->begin,
				       .pc = k->pc,
				       .thread = k->thread,
				       .fault = k->fault,
				       .length = (uint32_t)(k->end - k->begin),
				       .wanted_pc = wanted->pc,
				       .wanted_begin = wanted->begin,
				       .wanted_end = wanted->end};
	const size_t before = s->reached;
	struct watched_rank r = {0};
	int ret;

	if (!sr_race_skipped_bytes(k, race->skipped, trial.bytes))
		return 0;
	ret = open_files(&r);
	if (!ret)
		ret = sr_race_watches_try_access(&trial, r.file.path);
	if (!ret)
		ret = run_trial(s, how, dir, &r, wanted->rank);
	close_files(&r);
	return ret ? ret : s->reached > before;
}

int sr_watches_try_skips(struct sr_race_watches *s, struct sr_races *r, const char *dir)
{
	size_t kept = 0, tried = 0;
	int is = 1;

	for (size_t i = 0; i < r->n; i++) {
		const struct sr_race *race = &r->races[i];

		if (race->skip)
			is = race->severity == SR_RACE_NOTE || tried++ >= TRIALS_MOST ? 0 : try_skip(s, &r->how, dir, race);
		if (is < 0)
			return sr_fail("what rank %s does behind a load cannot be found: %s", name_of(&r->how, race->skip->rank), strerror(-is)), is;
		if (is || !race->skip)
			r->races[kept++] = *race;
	}
	r->n = kept;
	return 0;
}

int sr_watches_try(struct sr_race_watches *s, const struct sr_races *r, const char *dir)
{
	uint64_t tried[TRIALS_MOST];
	size_t n = 0, waits = s->polls.used;

	for (size_t i = 0; i < r->n && n < TRIALS_MOST; i++) {
		const struct sr_access *load = sr_race_load_to_try(r, &r->races[i]);
		size_t k = 0;
		int failed;

		while (load && k < n && tried[k] != load->pc)
			k++;
		if (!load || k < n)
			continue;
		tried[n++] = load->pc;
		failed = try_load(s, &r->how, dir, load);
		if (failed) {
			sr_fail("what a load of rank %s waits for cannot be found: %s", name_of(&r->how, load->rank), strerror(-failed));
			return failed;
		}
	}
	return s->polls.used > waits;
}
