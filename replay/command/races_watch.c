/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/races_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/command/command.h"

struct watching {
	struct sr_race_watches *s;
	struct sr_race_stacks *stacks;
	const struct sr_race_collecting *how;
	const char *dir;
	unsigned int jobs; /* replays at once */
	char place[64];
};

/* A rank's replay, and its files. */
struct watched_rank {
	char file[128], verdict[128], stack_file[128], said[128]; /* said: its standard error */
	pid_t child; /* 0: it has ended, or has not begun */
	int failed;  /* -errno */
};

static int32_t number_of(const struct watching *w, size_t rank)
{
	return w->how->links->ranks[rank].number;
}

/* The child: replays one rank, and keeps what it says to itself. */
static void __attribute__((noreturn)) run_replay(const struct watching *w, const struct watched_rank *r, int32_t rank)
{
	char number[16];
	int nothing = open("/dev/null", O_RDWR), said = open(r->said, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	snprintf(number, sizeof(number), "%d", rank);
	dup2(nothing, STDIN_FILENO);
	dup2(nothing, STDOUT_FILENO);
	dup2(said < 0 ? nothing : said, STDERR_FILENO);
	execl("/proc/self/exe", "sreplay", "replay", "--quiet", "--rank", number, "--json", r->verdict, "--watch", r->file, "--stacks", r->stack_file,
	      w->dir, (char *)NULL);
	_exit(SR_EXIT_FAILED);
}

/* The verdict on the rank's last image. */
static bool was_exact(const struct watched_rank *r)
{
	FILE *f = fopen(r->verdict, "r");
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
	FILE *f = fopen(r->said, "r");
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

	sr_note("the replay of rank %d is not exact: races of its loads and stores are no more than possible%s%s%s", number_of(w, rank),
		reason && *reason ? " (" : "", reason ? reason : "", reason && *reason ? ")" : "");
	free(words);
}

/* Says what is to be watched, and starts the replay. */
static void start(const struct watching *w, const struct sr_race_model *m, size_t rank, struct watched_rank *r)
{
	const int32_t number = number_of(w, rank);
	int ranges;

	snprintf(r->file, sizeof(r->file), "%s/stores-%d", w->place, number);
	snprintf(r->verdict, sizeof(r->verdict), "%s/verdict-%d", w->place, number);
	snprintf(r->stack_file, sizeof(r->stack_file), "%s/stacks-%d", w->place, number);
	snprintf(r->said, sizeof(r->said), "%s/said-%d", w->place, number);
	ranges = sr_race_watches_ask(m, (uint32_t)rank, r->file);
	if (ranges < 0) {
		r->failed = ranges;
		return;
	}
	r->child = fork();
	if (!r->child)
		run_replay(w, r, number);
	if (r->child < 0) {
		r->failed = -errno;
		r->child = 0;
	}
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
static int take(struct watching *w, size_t rank, const struct watched_rank *r)
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
		ret = sr_race_watches_read(w->s, (uint32_t)rank, r->file);
	if (!ret)
		ret = sr_race_stacks_read(w->stacks, (uint32_t)rank, r->stack_file);
	unlink(r->file);
	unlink(r->verdict);
	unlink(r->stack_file);
	unlink(r->said);
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
			ret = sr_fail("what rank %d accesses cannot be found: %s", number_of(w, i), strerror(-failed));
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
	const char *tmp = getenv("TMPDIR");
	struct watching w = {.s = s, .stacks = stacks, .how = how, .dir = dir, .jobs = jobs};
	bool fine;

	*s = (struct sr_race_watches){.doubts = calloc(how->links->ranks_n + 1, sizeof(*s->doubts))};
	if (!s->doubts)
		return sr_fail("no memory left"), false;
	snprintf(w.place, sizeof(w.place), "%s/sreplay-races-XXXXXX", tmp && strlen(tmp) < 32 ? tmp : "/tmp");
	if (!mkdtemp(w.place))
		return sr_fail("cannot make %s: %s", w.place, strerror(errno)), false;
	fine = watch_all(&w);
	rmdir(w.place);
	return fine;
}
