/* SPDX-License-Identifier: BSD-2-Clause */
/* command.h: what the subcommands of `sreplay` share. */
#ifndef REPLAY_COMMAND_COMMAND_H
#define REPLAY_COMMAND_COMMAND_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

/* Exit status of the command for its own failures: usage, a bad trace, ... */
#define SR_EXIT_FAILED 125

/* Each parses its own arguments (argp) and returns the exit status. */
int sr_cmd_record(int argc, char **argv);
int sr_cmd_replay(int argc, char **argv);
int sr_cmd_dump(int argc, char **argv);
int sr_cmd_verify(int argc, char **argv);
int sr_cmd_orders(int argc, char **argv);
int sr_cmd_collect(int argc, char **argv);
int sr_cmd_info(int argc, char **argv);
int sr_cmd_process(int argc, char **argv);
int sr_cmd_explain(int argc, char **argv);
int sr_cmd_graph(int argc, char **argv);

/* One line on standard error, "sreplay: ..."; returns SR_EXIT_FAILED. */
int sr_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same without meaning failure. */
void sr_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/*
 * Where a part of sreplay is: beside this executable in a build tree or an
 * installation.  Returns false, after a message, if it is nowhere.
 */
bool sr_find_shim(char *path, size_t size);
bool sr_find_daemon(char *path, size_t size);
bool sr_find_gdb_commands(char *path, size_t size);

/*
 * For the default case of an argp parser: the one argument of the command is a
 * trace, and goes into *dir.
 */
error_t sr_parse_trace(int key, char *arg, struct argp_state *state, const char **dir);

/* A rank or thread number from an argument; -1 after a message if it is none. */
long sr_parse_number(const char *option, const char *text);

#endif
