/* SPDX-License-Identifier: BSD-2-Clause */
/* command.h: what the subcommands of `sreplay` share. */
#ifndef REPLAY_COMMAND_COMMAND_H
#define REPLAY_COMMAND_COMMAND_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "replay/print/say.h"

/* Each parses its own arguments (argp) and returns the exit status. */
int sr_cmd_record(int argc, char **argv);
int sr_cmd_replay(int argc, char **argv);
int sr_cmd_dump(int argc, char **argv);
int sr_cmd_verify(int argc, char **argv);
int sr_cmd_orders(int argc, char **argv);
int sr_cmd_collect(int argc, char **argv);
int sr_cmd_pack(int argc, char **argv);
int sr_cmd_info(int argc, char **argv);
int sr_cmd_process(int argc, char **argv);
int sr_cmd_explain(int argc, char **argv);
int sr_cmd_export(int argc, char **argv);
int sr_cmd_ls(int argc, char **argv);
int sr_cmd_ps(int argc, char **argv);
int sr_cmd_suggest(int argc, char **argv);
int sr_cmd_races(int argc, char **argv);
int sr_cmd_confirm(int argc, char **argv);
int sr_cmd_report(int argc, char **argv);
int sr_cmd_graph(int argc, char **argv);

/*
 * For the default case of an argp parser: stores the command's one argument, a trace, in *dir; without
 * one, the newest trace (traces.h).
 */
error_t sr_parse_trace(int key, char *arg, struct argp_state *state, const char **dir);

/* Options that several commands have; a command has those that its list of options names. */
struct sr_trace_options {
	const char *dir;
	const char *group; /* -g */
	const char *out;   /* -o */
	bool json, quiet;  /* -j, -q */
};

/* For the default case of an argp parser: these options and the trace. */
error_t sr_parse_trace_options(int key, char *arg, struct argp_state *state, struct sr_trace_options *o);

/* Notes that a trace lacks arguments of requests, and the remedy. */
struct sr_trace;
void sr_note_what_sums_lack(const struct sr_trace *t, const char *dir);

#define SR_QUIET_OPTION                                                                            \
	{                                                                                          \
		"quiet", 'q', NULL, 0, "no progress bar", 0                                        \
	}

/* For the options of a command that reports something. */
#define SR_JSON_OPTION                                                                             \
	{                                                                                          \
		"json", 'j', NULL, 0, "JSON instead of text, an object per line", 0                \
	}

/* Where a command writes: the file, or standard output for NULL. NULL after a message. */
FILE *sr_output_open(const char *path);

/*
 * Closes the file. status: of what was written. Returns that, or SR_EXIT_FAILED after a message. main()
 * looks at standard output.
 */
int sr_output_close(FILE *out, const char *path, int status);

/* Parses a rank or thread number; -1 after a message. */
long sr_parse_number(const char *option, const char *text);

#endif
