/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cmd_replay.c: `sreplay replay`: starts recorded processes again, feeds them their traces, and
 * prints the verdict.  They run under the same library as when they were recorded; it finds the
 * control page (abi/control.h) at a descriptor, and so knows that it replays.
 */
#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/children.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/command/replay_race.h"
#include "replay/command/record_ranks.h"
#include "replay/host/shared/control.h"
#include "replay/host/group/choose.h"
#include "replay/host/group/conduct.h"
#include "replay/host/group/make_plan.h"
#include "replay/host/group/transport.h"
#include "replay/host/output.h"
#include "replay/host/forks.h"
#include "replay/host/rank/images.h"
#include "replay/host/start/installed.h"
#include "replay/host/start/private.h"
#include "replay/host/verdict/verdict.h"

#define DEFAULT_TIMEOUT 60

/* The argument of --gdb where none is given: the only rank. */
#define ONLY_RANK "-"

enum {
	OPTION_GDB = 256,
	OPTION_WATCH,
	OPTION_STACKS,
	OPTION_RACE,
	OPTION_EXEC,
	OPTION_IMAGE,
	OPTION_TRANSPORT,
	OPTION_LIVE_FILES,
	OPTION_NO_SANDBOX,
	OPTION_JSON,
	OPTION_SANDBOX,
	OPTION_RECORD_RANKS,
};

struct options {
	const char *dir;
	const char *group; /* a list of ranks; NULL: all */
	const char *record_ranks; /* a list of ranks; NULL: none */
	const char *watch;  /* of sreplay races: replay/abi/watch.h */
	const char *stacks; /* ... and replay/abi/stacks.h */
	const char *race;   /* --race, as given; NULL: none */
	const char *rank;  /* --rank, as given; NULL: it was not */
	long image; /* the last one to replay; -1: all */
	long timeout;
	const char *output;
	const char *json; /* a file for the verdicts; NULL: none */
	int json_fd;
	bool quiet;
	bool live_files;
	bool no_sandbox;
	enum sr_group_transport transport;
	bool has_transport; /* given by --transport */
	struct sr_tool tool;
	const char *tool_name; /* of the rank that it runs; NULL: the only one */
	long tool_rank; /* ... in the trace; -1: none is named */
};

static const struct argp_option option_list[] = {
    {"group", 'g', "LIST", 0,
     "replay these ranks, e.g. 0,2-5 (default: all that were recorded), and what they have forked and uses verbs; 3/1: the first "
     "process that rank 3 has forked",
     0},
    {"rank", 'r', "N", 0,
     "this rank only, alone; with --exec the one that the tool runs; N/K: the K-th process that it has "
     "forked (sreplay info lists them)",
     0},
    {"image", OPTION_IMAGE, "K", 0,
     "of a rank that executed other programs: up to image K only, which is also the one that --gdb and "
     "--exec run (default: the last)",
     0},
    {"timeout", 't', "SECONDS", 0,
     "stop a replay that makes no recorded call for so long (default 60, 0: never)", 0},
    {"output", 'o', "DIR", 0,
     "keep the files that the program writes, below DIR with their paths; of several ranks each has "
     "its own, DIR/rank-N, and what each prints goes to DIR/rank-N.out and DIR/rank-N.err as well, as "
     "it is",
     0},
    {"record-ranks", OPTION_RECORD_RANKS, "LIST", 0,
     "of a job that was recorded with --order: replay it whole, and make of these ranks the detailed trace -o "
     "NAME.srec, of which each can be replayed alone",
     0},
    {"quiet", 'q', NULL, 0, "no progress bar", 0},
    {"json", OPTION_JSON, "FILE", 0, "write the verdicts there as well, as a JSON object per rank", 0},
    {"live-files", OPTION_LIVE_FILES, 0, 0,
     "let the program read and change the files of this machine, as it did when it was recorded",
     0},
    {"no-sandbox", OPTION_NO_SANDBOX, 0, 0,
     "run the programs of a trace that others made, or that was copied, as your own: without the "
     "sandbox that keeps them from the network and from changing anything",
     0},
    {"sandbox", OPTION_SANDBOX, "DIR", OPTION_HIDDEN, NULL, 0},
    {"watch", OPTION_WATCH, "FILE", OPTION_HIDDEN, NULL, 0},
    {"race", OPTION_RACE, "N", 0,
     "the race N of DIR.srec/races.json: with --gdb RANK, stop at its accesses in that rank; otherwise print both, and what is "
     "around them. N:ab or N:ba: in the run that sreplay confirm made in this order",
     0},
    {"stacks", OPTION_STACKS, "FILE", OPTION_HIDDEN, NULL, 0},
    {"transport", OPTION_TRANSPORT, "WAY", 0,
     "how the ranks reach each other: rxe, by loopback on an RDMA device of this host; shm, "
     "through shared memory (default for several: rxe where there is a device, else shm); none: "
     "each has what entered it from its trace only",
     0},
    {"gdb", OPTION_GDB, "RANK", 0,
     "run this rank (default: the only one) under gdb, with commands of its own (\"help sreplay\" there); arguments after "
     "-- are gdb's",
     0},
    {"exec", OPTION_EXEC, "COMMAND", 0,
     "run the rank under this command, e.g. \"strace -f -o calls\", which must leave addresses "
     "alone",
     0},
    {0},
};

/* Of a child the trace says whether there is one. */
static bool take_name(const char **name, const char *option, const char *arg)
{
	*name = arg;
	return strchr(arg, '/') || sr_parse_number(option, arg) >= 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'g':
		o->group = arg;
		return 0;
	case 'r':
		return take_name(&o->rank, "--rank", arg) ? 0 : EINVAL;
	case OPTION_IMAGE:
		o->image = sr_parse_number("--image", arg);
		return o->image < 0 ? EINVAL : 0;
	case 'q':
		o->quiet = true;
		return 0;
	case OPTION_JSON:
		o->json = arg;
		return 0;
	case OPTION_RECORD_RANKS:
		o->record_ranks = arg;
		return 0;
	case OPTION_LIVE_FILES:
		o->live_files = true;
		return 0;
	case OPTION_NO_SANDBOX:
		o->no_sandbox = true;
		return 0;
	case OPTION_SANDBOX:
		argp_error(state, "--sandbox is no longer needed, as a replay changes no files: -o %s "
				  "keeps there what the program writes",
			   arg);
		return EINVAL;
	case 'o':
		o->output = arg;
		return 0;
	case 't':
		o->timeout = sr_parse_number("--timeout", arg);
		return o->timeout < 0 ? EINVAL : 0;
	case OPTION_TRANSPORT:
		o->has_transport = true;
		if (sr_transport_parse(arg, &o->transport))
			return 0;
		argp_error(state, "--transport %s: expected rxe, shm or none", arg);
		return EINVAL;
	case OPTION_WATCH:
		o->watch = arg;
		return 0;
	case OPTION_RACE:
		o->race = arg;
		return 0;
	case OPTION_STACKS:
		o->stacks = arg;
		return 0;
	case OPTION_GDB:
		o->tool.kind = SR_TOOL_GDB;
		return !strcmp(arg, ONLY_RANK) || take_name(&o->tool_name, "--gdb", arg) ? 0 : EINVAL;
	case OPTION_EXEC:
		o->tool.kind = SR_TOOL_COMMAND;
		o->tool.command = arg;
		return 0;
	default:
		return sr_parse_trace(key, arg, state, &o->dir);
	}
}

static const struct argp argp = {
    option_list,
    parse_option,
    "DIR.srec [-- GDB-ARGUMENT...]",
    "Run recorded processes again, with what entered them taken from the trace. No RDMA "
    "device, and none of the other processes, is needed. Exit status of one rank: the program's, "
    "if the replay was exact; of several: 0, if all were. 123 if the trace ends before the "
    "program; 124 if the program diverged from it; 125 if it could not be replayed.",
    NULL,
    NULL,
    NULL,
};

/* 3, or 3/1 */
static bool is_name(const char *word)
{
	return *word >= '0' && *word <= '9' && !word[strspn(word, "0123456789/")];
}

/* argp takes an option's argument from the next word always, or never. */
static void complete_gdb_option(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
		if (!strcmp(argv[i], "--gdb") &&
		    (i + 1 == argc || !is_name(argv[i + 1])))
			argv[i] = "--gdb=" ONLY_RANK;
}

/* Words after "--" are for gdb; argp must not see them. */
static char **cut_tool_arguments(int *argc, char **argv)
{
	for (int i = 1; i < *argc; i++) {
		if (strcmp(argv[i], "--"))
			continue;
		*argc = i;
		argv[i] = NULL;
		return argv + i + 1;
	}
	return NULL;
}

/* What a program prints to the terminal itself, and not by way of the command, would mix with a bar. */
static bool has_bar(const struct options *o)
{
	return !o->quiet && o->tool.kind == SR_TOOL_NONE;
}

static int replay_one(struct sr_trace *t, const struct options *o, int32_t rank,
		      struct sr_transport *way, const struct sr_outsiders *outsiders,
		      const char *files, struct sr_produced_by *produced)
{
	const struct sr_rank_options one = {
	    .dir = o->dir,
	    .rank = rank,
	    .timeout = o->timeout,
	    .last_image = o->image,
	    .files = files,
	    .no_sandbox = o->no_sandbox,
	    .output = files ? o->output : NULL,
	    .tool = o->tool,
	    .bar = has_bar(o) && !isatty(STDOUT_FILENO),
	    .json = o->json_fd,
	    .outsiders = outsiders,
	};
	struct sr_replay_control *control;
	int fd, status;

	control = sr_control_make(&fd);
	if (!control)
		return sr_fail("cannot make the control page: %s", strerror(errno));
	control->group_fd = way->group_fd;
	if (o->watch && (control->watch_fd = open(o->watch, O_RDWR | O_APPEND | O_CLOEXEC)) < 0)
		return sr_fail("cannot open %s: %s", o->watch, strerror(errno));
	if (o->stacks && (control->stacks_fd = open(o->stacks, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)) < 0)
		return sr_fail("cannot open %s: %s", o->stacks, strerror(errno));
	if (produced)
		control->produced_fd = produced->fd;
	status = sr_images_replay(t, &one, control, fd, way->group);
	sr_transport_close(way);
	if (produced) {
		produced->error = atomic_load(&control->produced_error);
		produced->ended_as_recorded = atomic_load(&control->verdict) != SR_VERDICT_FAILED;
	}
	return status;
}

/* The requested transport, or else the best there is, with its plan.  False after a message. */
static bool find_transport(struct sr_trace *t, const struct options *o, const int32_t *ranks,
			   size_t n, struct sr_transport *way, bool *has_no_plan)
{
	enum sr_group_transport wanted = o->transport;

	/* A rank alone has only its trace; there is nothing to compare it with. */
	if (!o->has_transport)
		wanted = n > 1 ? SR_GROUP_BEST : SR_GROUP_NONE;
	if (!sr_transport_open(way, t, ranks, n, wanted))
		return false;
	if (wanted == SR_GROUP_NONE || sr_ensure_plan(t, o->dir, ranks, n, o->quiet))
		return sr_transport_ready(way);
	sr_transport_abandon(way);
	if (o->has_transport)
		return sr_fail("--transport none replays without"), false;
	sr_note("so each rank is replayed from its trace only");
	*has_no_plan = true;
	return sr_transport_open(way, t, ranks, n, SR_GROUP_NONE);
}

/* Ranks in the trace that are not replayed.  NULL: there are none, or they are unknown. */
static struct sr_outsiders *find_outsiders(struct sr_trace *t, const int32_t *ranks, size_t n,
					   const struct sr_transport *way)
{
	struct sr_outsiders *outsiders = NULL;
	struct sr_error err;

	if (way->group && n < sr_trace_ranks(t) && sr_outsiders_find(&outsiders, t, ranks, n, &err))
		sr_note("what ranks that are not replayed wrote is not known: %s",
			err.text);
	return outsiders;
}

static int replay(struct sr_trace *t, const struct options *o, const int32_t *ranks, size_t n,
		  const char *files, struct sr_produced_by *produced)
{
	struct sr_outsiders *outsiders;
	struct sr_transport way;
	int status;

	struct sr_conduct c = {
	    .trace = t,
	    .dir = o->dir,
	    .ranks = ranks,
	    .count = n,
	    .timeout = o->timeout,
	    .files = files,
	    .no_sandbox = o->no_sandbox,
	    .output = o->output,
	    .bar = has_bar(o),
	    .json = o->json_fd,
	    .tool = o->tool,
	    .tool_rank = (int32_t)o->tool_rank,
	    .produced = produced,
	};

	if (o->tool.kind != SR_TOOL_NONE && (n > 1 || o->tool_name) && o->tool_rank < 0)
		return sr_fail("--%s: which rank? Of those that are replayed one is wanted: %s",
			       o->tool.kind == SR_TOOL_GDB ? "gdb" : "exec",
			       o->tool.kind == SR_TOOL_GDB ? "--gdb RANK" : "--rank N");
	if (o->image >= 0 && n > 1)
		return sr_fail("--image %ld: of which rank? --rank N", o->image);
	if (n > SR_GROUP_MEMBERS)
		return sr_fail("a group of more than %d ranks cannot be replayed at once",
			       SR_GROUP_MEMBERS);
	if (!find_transport(t, o, ranks, n, &way, &c.has_no_plan))
		return SR_EXIT_FAILED;
	c.outsiders = outsiders = find_outsiders(t, ranks, n, &way);
	c.transport = &way;
	status = n == 1 ? replay_one(t, o, ranks[0], &way, outsiders, files, produced) : sr_conduct(&c);
	sr_outsiders_free(outsiders);
	return status;
}

/* --rank is replayed alone.  With --group it only says which of them a tool runs. */
static bool is_alone(const struct options *o)
{
	return o->rank && !o->group;
}

static bool combine_choices(struct options *o)
{
	if (o->rank && o->group && o->tool.kind == SR_TOOL_NONE)
		return !sr_fail("--rank %s and --group %s: give one of them", o->rank, o->group);
	if (!o->tool_name)
		o->tool_name = o->rank;
	return true;
}

/* With private files, unless the user wants the machine's. */
static int replay_apart(struct sr_trace *t, const struct options *o, const int32_t *ranks, size_t n,
			struct sr_produced_by *produced)
{
	struct sr_private files;
	int status;

	if (o->output && o->live_files && n == 1)
		return sr_fail("--output keeps what the program writes apart from the files of this "
			       "machine, and --live-files does not: give one of them");
	if (o->output && !sr_output_make(o->output))
		return SR_EXIT_FAILED;
	if (o->live_files)
		return replay(t, o, ranks, n, NULL, produced);
	if (!sr_private_make(&files, o->output))
		return SR_EXIT_FAILED;
	status = replay(t, o, ranks, n, files.path, produced);
	sr_private_remove(&files);
	return status;
}

/* Its -o is the new trace's, and what the program writes is dropped. */
static int replay_and_record(struct sr_trace *t, const struct options *o, const int32_t *ranks, size_t n)
{
	struct options without = *o;
	struct sr_record_ranks r;
	int status;

	if (o->group || o->rank || o->tool.kind != SR_TOOL_NONE)
		return sr_fail("--record-ranks replays all ranks of the job: not with --rank, --group, --gdb or --exec");
	without.output = NULL;
	status = sr_record_ranks_begin(&r, t, o->dir, o->record_ranks, ranks, n, o->output);
	if (!status)
		status = replay_apart(t, &without, ranks, n, r.of);
	return sr_record_ranks_end(&r, status);
}

/* A child that is replayed alone need not have used verbs.  False after a message. */
static bool adopt_one(struct sr_trace *t, const struct options *o)
{
	struct sr_error err;
	char path[PATH_MAX];
	int32_t rank;

	return sr_forks_find(path, o->dir, o->rank, &rank) && (!sr_trace_adopt(t, path, rank, &err) || !sr_fail("%s", err.text));
}

/* The numbers that the options' names have in the trace.  Their number; 0 after a message. */
static size_t choose_ranks(struct sr_trace *t, struct options *o, int32_t **ranks)
{
	struct sr_error err;
	bool alone = is_alone(o);
	size_t n = 0;

	if (alone && strchr(o->rank, '/') && !adopt_one(t, o))
		return 0;
	if (!alone && !o->record_ranks && sr_children_adopt(t, &err))
		return !sr_fail("%s", err.text);
	n = sr_ranks_choose(t, o->dir, alone ? o->rank : o->group, ranks);
	for (size_t i = 0; i < n && o->tool_name; i++)
		if (!strcmp(sr_trace_rank_name(t, (*ranks)[i]), o->tool_name))
			o->tool_rank = (*ranks)[i];
	return n;
}

/* The rank is replayed alone, unless others are asked for. */
static bool stop_at_race(struct options *o, struct sr_replay_race *race)
{
	static char rank[24];

	snprintf(rank, sizeof(rank), "%d", race->access[0].rank);
	if (!o->tool_name)
		o->tool_name = rank;
	o->tool.arguments = sr_replay_race_arguments(race, (int32_t)strtol(o->tool_name, NULL, 10), o->tool.arguments);
	if (!o->group && !o->rank)
		o->rank = o->tool_name;
	o->dir = race->dir;
	return o->tool.arguments;
}

int sr_cmd_replay(int argc, char **argv)
{
	struct sr_replay_race race;
	struct options o = {.timeout = DEFAULT_TIMEOUT, .tool_rank = -1, .image = -1, .json_fd = -1};
	struct sr_trace *t;
	struct sr_error err;
	int32_t *ranks;
	size_t n;
	int status = SR_EXIT_FAILED;

	complete_gdb_option(argc, argv);
	o.tool.arguments = cut_tool_arguments(&argc, argv);
	if (sr_argp_parse(&argp, argc, argv, 0, &o))
		return SR_EXIT_FAILED;
	if (!combine_choices(&o) || !sr_installed_has_proc())
		return SR_EXIT_FAILED;
	if (o.race) {
		if (!sr_replay_race_find(&race, o.dir, o.race))
			return SR_EXIT_FAILED;
		if (o.tool.kind != SR_TOOL_GDB)
			return sr_replay_race_print(&race, o.dir, o.race);
		if (!stop_at_race(&o, &race))
			return SR_EXIT_FAILED;
	}
	/* A program that the user steps through is not stuck. */
	if (o.tool.kind == SR_TOOL_GDB)
		o.timeout = 0;
	if (sr_trace_open(&t, o.dir, &err))
		return sr_fail("%s", err.text);
	if (o.json)
		o.json_fd = open(o.json, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
	if (o.json && o.json_fd < 0) {
		sr_trace_close(t);
		return sr_fail("cannot write %s: %s", o.json, strerror(errno));
	}
	n = choose_ranks(t, &o, &ranks);
	if (n) {
		status = o.record_ranks ? replay_and_record(t, &o, ranks, n) : replay_apart(t, &o, ranks, n, NULL);
		free(ranks);
	}
	if (o.json)
		close(o.json_fd);
	sr_trace_close(t);
	return status;
}
