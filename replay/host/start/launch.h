/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * launch.h: turns this process into the recorded one: its directory, limits, descriptors,
 * arguments, environment and addresses.
 *
 * A debugger is attached to the program, its child, before any code of the program has run.  Another tool (strace, perf, ...)
 * starts the program itself, with its own environment and under another name.  It is given `sreplay replay-start` to start
 * instead, which turns into the recorded process, but leaves its memory as the kernel lays it out.
 */
#ifndef REPLAY_HOST_START_LAUNCH_H
#define REPLAY_HOST_START_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/host/start/recorded.h"

enum sr_tool_kind {
	SR_TOOL_NONE,
	SR_TOOL_GDB,
	SR_TOOL_COMMAND, /* of --exec */
};

struct sr_tool {
	enum sr_tool_kind kind;
	const char *command;      /* --exec: words, as a shell would split them */
	char **arguments;         /* gdb: further arguments, NULL-terminated; or NULL */
};

struct sr_launch {
	const struct sr_recorded *recorded;
	const struct sr_tool *tool;
	const char *trace;
	int32_t rank;
	uint32_t image; /* of the rank */
	const char *shown_trace, *shown_rank; /* a debugger's commands name it so */
	bool laid_out;            /* the parent lays out its memory: see replay/host/layout */
	struct sr_layout_answer layout_answer; /* of a debugged program */
	bool confined;            /* see confine.h */
	int files_fd;             /* of the private files, where it may write; -1: none */
	int lowest_fd;            /* of the replay's own descriptors */
	unsigned long open_files; /* the limit that the program is to have; 0: as it is */
};

/*
 * Call in the child, when its only descriptors above 2 are those of the replay.  Executes the
 * program, or the tool that runs it.
 */
void __attribute__((noreturn)) sr_launch(const struct sr_launch *l);

/* `sreplay replay-start`. */
int sr_cmd_replay_start(int argc, char **argv);

#endif
