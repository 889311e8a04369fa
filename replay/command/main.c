/* SPDX-License-Identifier: BSD-2-Clause */
/* main.c: the `sreplay` command. */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "logd/base/recorder_mark.h"
#include "replay/command/command.h"
#include "replay/command/guess.h"
#include "replay/host/start/installed.h"
#include "replay/host/start/launch.h"
#include "replay/print/terminal.h"

/* Nothing reads it but the shim, in a process that would be recorded. */
static const char recorder_mark[] __attribute__((used)) = SR_RECORDER_MARK;

/* Whether standard output is text of sreplay's own, of the program, or for other tools. */
enum output { ITS_OWN, THE_PROGRAMS, BINARY };

static const struct {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *what;
	enum output output;
} commands[] = {
    {"record", sr_cmd_record, "run a program and record what enters it", THE_PROGRAMS},
    {"replay", sr_cmd_replay, "run recorded processes again, from their trace", THE_PROGRAMS},
    {"dump", sr_cmd_dump, "print the records of a trace, a line each"},
    {"verify", sr_cmd_verify, "check every checksum and count of a trace"},
    {"process", sr_cmd_process, "find out what the replay of a group needs"},
    {"explain", sr_cmd_explain, "say where the values of a call came from"},
    {"races", sr_cmd_races, "find accesses that nothing orders"},
    {"confirm", sr_cmd_confirm, "run a job again, with the accesses of a race in both orders", THE_PROGRAMS},
    {"graph", sr_cmd_graph, "show who communicated with whom"},
    {"report", sr_cmd_report, "show a run as one page for a browser", BINARY},
    {"export", sr_cmd_export, "write a run for Perfetto, Chrome or Graphviz", BINARY},
    {"suggest", sr_cmd_suggest, "say which ranks to record together"},
    {"orders", sr_cmd_orders, "say which rank was found to come before which"},
    {"pack", sr_cmd_pack, "put executables and libraries into a trace"},
    {"collect", sr_cmd_collect, "bring the traces of a job's nodes together"},
    {"info", sr_cmd_info, "say what a trace holds"},
    {"ls", sr_cmd_ls, "list the traces here"},
    {"ps", sr_cmd_ps, "list the processes of a trace"},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

static void usage(FILE *to)
{
	fprintf(to, "usage: sreplay COMMAND [OPTION...] [ARGUMENT...]\n\n");
	for (size_t i = 0; i < COMMANDS; i++)
		fprintf(to, "  %-8s %s\n", commands[i].name, commands[i].what);
	fprintf(to, "\nsreplay COMMAND --help describes the options of a command.\n");
}

/* A full disk shows here at the latest; a pipe whose reader has left ends the process before. */
static int finish_output(int status)
{
	if (!fflush(stdout) && !ferror(stdout))
		return status;
	sr_fail("standard output could not be written%s%s: it is not complete", errno ? ": " : "",
		errno ? strerror(errno) : "");
	return status ? status : SR_EXIT_FAILED;
}

static int fail_unknown(const char *word)
{
	const char *names[COMMANDS], *guess;

	for (size_t i = 0; i < COMMANDS; i++)
		names[i] = commands[i].name;
	guess = sr_guess(word, names, COMMANDS);
	if (guess)
		return sr_fail("there is no command \"%s\"; did you mean \"%s\"?", word, guess);
	return sr_fail("there is no command \"%s\"; sreplay --help lists them", word);
}

int main(int argc, char **argv)
{
	static char help[] = "--help";
	char name[64];

	argp_err_exit_status = SR_EXIT_FAILED;
	sr_installed_self();
	sr_terminal_guard(&stderr);
	if (argc < 2) {
		usage(stderr);
		return SR_EXIT_FAILED;
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
		usage(stdout);
		return 0;
	}
	/* "help" and "help COMMAND", as other tools have them */
	if (!strcmp(argv[1], "help")) {
		if (argc == 2) {
			usage(stdout);
			return 0;
		}
		argv[1] = argv[2];
		argv[2] = help;
		argc = 3;
	}
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
		printf("sreplay %s\n", SREPLAY_VERSION);
		return 0;
	}
	/* Tools start a recorded process by this; users never type it. */
	if (!strcmp(argv[1], "replay-start"))
		return sr_cmd_replay_start(argc - 1, argv + 1);
	for (size_t i = 0; i < COMMANDS; i++) {
		if (strcmp(argv[1], commands[i].name))
			continue;
		/* argp prints argv[0] as the program's name */
		snprintf(name, sizeof(name), "sreplay %s", commands[i].name);
		argv[1] = name;
		if (commands[i].output == ITS_OWN)
			sr_terminal_guard(&stdout);
		errno = 0;
		return finish_output(commands[i].run(argc - 1, argv + 1));
	}
	return fail_unknown(argv[1]);
}
