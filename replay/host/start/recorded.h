/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recorded.h: the recorded process, as process.json describes it, and whether it can be started
 * here.
 */
#ifndef REPLAY_HOST_START_RECORDED_H
#define REPLAY_HOST_START_RECORDED_H

#include <jansson.h>
#include <stdbool.h>

#include "logd/trace/reader.h"
#include "replay/abi/control.h"
#include "replay/host/layout/layout.h"

struct sr_recorded {
	const json_t *json; /* the trace's */
	char *exe;
	char *cwd;
	char **argv;
	char **env;
	char *executed_as; /* the path given to execve, whose length moves the stack */
	unsigned long long
	    stack_limit; /* RLIMIT_STACK: decides where mappings begin; 0: not known */
	unsigned long long main_stack; /* where main's frame was; 0: not known */
	struct sr_layout layout;
	struct sr_processor processor;
	bool stdout_line_buffered;
	int descriptors_below; /* the recorder's own had numbers from here on */
	bool trap; /* recorded with the system-call trap */
	bool tsc; /* recorded with the time-stamp counter trapped */
	bool huge_pages; /* its machine had some for programs */
	bool serial; /* one thread ran at a time (record --threads=serial) */
	int pid;  /* as the process itself sees it */
	uint8_t inherited[SR_INHERITED_FDS]; /* its descriptors at the start, as in the control page */
	uint64_t ignored, blocked; /* masks of the signals that it inherited ignored and blocked */
	bool from_open; /* libibverbs was loaded late: nothing before the first device is recorded */
};

/* false after a message that names what is missing in process.json. */
bool sr_recorded_load(struct sr_recorded *r, const struct sr_trace *t, int32_t rank,
		      const char *dir);
void sr_recorded_free(struct sr_recorded *r);

/*
 * Are the executable and its libraries the recorded ones, or in the trace (packed.h)?  Prints a
 * message for each that is not.
 */
bool sr_recorded_check_files(const struct sr_recorded *r, const char *trace);

#endif
