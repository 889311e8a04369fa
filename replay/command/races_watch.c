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
	char place[64], file[128], verdict[128], stack_file[128];
};

/* The child: replays one rank, and says nothing. */
static void __attribute__((noreturn)) run_replay(const struct watching *w, int32_t rank)
{
	char number[16];
	int nothing = open("/dev/null", O_RDWR);

	snprintf(number, sizeof(number), "%d", rank);
	dup2(nothing, STDIN_FILENO);
	dup2(nothing, STDOUT_FILENO);
	dup2(nothing, STDERR_FILENO);
	execl("/proc/self/exe", "sreplay", "replay", "--quiet", "--rank", number, "--json", w->verdict, "--watch", w->file, "--stacks", w->stack_file,
	      w->dir, (char *)NULL);
	_exit(SR_EXIT_FAILED);
}

/* The verdict on the rank's last image. */
static bool was_exact(const struct watching *w)
{
	FILE *f = fopen(w->verdict, "r");
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

static int replay(struct watching *w, int32_t rank)
{
	pid_t child = fork();
	int status;

	if (child < 0)
		return -errno;
	if (!child)
		run_replay(w, rank);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* 0 or -errno. */
static int watch(struct watching *w, const struct sr_race_model *m, size_t rank)
{
	int32_t number = w->how->links->ranks[rank].number;
	const uint32_t *threads;
	int ret;

	snprintf(w->file, sizeof(w->file), "%s/stores-%d", w->place, number);
	snprintf(w->verdict, sizeof(w->verdict), "%s/verdict-%d", w->place, number);
	snprintf(w->stack_file, sizeof(w->stack_file), "%s/stacks-%d", w->place, number);
	ret = sr_race_watches_ask(m, (uint32_t)rank, w->file);
	if (ret >= 0)
		ret = replay(w, number);
	if (!ret && !access(w->verdict, F_OK) && !was_exact(w)) {
		sr_note("the replay of rank %d is not exact: races of its loads and stores are no more than possible", number);
		w->s->doubts[rank] |= SR_DOUBT_REPLAY;
	}
	if (sr_trace_threads(w->how->trace, number, &threads) > 1)
		w->s->doubts[rank] |= SR_DOUBT_THREADS;
	if (!ret)
		ret = sr_race_watches_read(w->s, (uint32_t)rank, w->file);
	if (!ret)
		ret = sr_race_stacks_read(w->stacks, (uint32_t)rank, w->stack_file);
	unlink(w->file);
	unlink(w->verdict);
	unlink(w->stack_file);
	return ret;
}

static bool watch_all(struct watching *w)
{
	struct sr_race_run run;
	struct sr_error err;
	int ret = sr_race_collect(&run, w->how, &err);

	if (ret)
		sr_fail("%s", err.text);
	for (size_t i = 0; i < w->how->links->ranks_n && !ret; i++) {
		ret = watch(w, &run.model, i);
		if (ret)
			sr_fail("what rank %d accesses cannot be found: %s", w->how->links->ranks[i].number, strerror(-ret));
	}
	sr_race_stacks_sort(w->stacks);
	if (!ret && (ret = sr_race_watches_sort(w->s)))
		sr_fail("no memory left");
	sr_race_run_free(&run);
	return !ret;
}

bool sr_watches_find(struct sr_race_watches *s, struct sr_race_stacks *stacks, const struct sr_race_collecting *how,
		     const char *dir)
{
	const char *tmp = getenv("TMPDIR");
	struct watching w = {.s = s, .stacks = stacks, .how = how, .dir = dir};
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
