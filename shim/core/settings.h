/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * settings.h: what the user asks of a recording. The settings are environment variables:
 * LD_PRELOAD and these variables are the plain interface, and `sreplay record` sets them.
 * settings.def lists them.
 */
#ifndef SHIM_CORE_SETTINGS_H
#define SHIM_CORE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/ring/protocol.h"

/* The numbers of the words in settings.def. */
enum sr_regions_mode {
	SR_REGIONS_PROTECT,
	SR_REGIONS_COMPARE,
	SR_REGIONS_OFF,
};

enum sr_tsc_mode {
	SR_TSC_TRAP,
	SR_TSC_NATIVE,
};

enum sr_threads_mode {
	SR_THREADS_AUTO, /* start.c makes it one of the others */
	SR_THREADS_PARALLEL,
	SR_THREADS_SERIAL,
};

enum sr_children_mode {
	SR_CHILDREN_AUTO, /* by whether the process is linked with verbs, or has a ring of io_uring */
	SR_CHILDREN_ON,
	SR_CHILDREN_OFF,
};

enum sr_clocks_mode {
	SR_CLOCKS_OFF,
	SR_CLOCKS_ON,
	SR_CLOCKS_SELF,
};

/* The types of the fields, by kind. */
#define SR_FIELD_FLAG        int
#define SR_FIELD_FLAG_OR(w)  int
#define SR_FIELD_SWITCH      int
#define SR_FIELD_CHOICE(...) int
#define SR_FIELD_NUMBER(...) int
#define SR_FIELD_PATH        const char *
#define SR_FIELD_RANKS       const char *
#define SR_FIELD_RANGES      const char *
#define SR_FIELD_TEXT(what)  const char *

struct sr_settings {
#define SETTING(name, field, kind, ...) SR_FIELD_##kind field;
#define RENAMED(...)
#include "shim/core/settings.def"
#undef SETTING
#undef RENAMED

	/* Derived from the settings. */
	bool threads_auto; /* `threads` was chosen for the program */
	bool of_job; /* a launcher has given the rank */
	bool in_group;
	int member;  /* the process's number in the group; -1: too high for clocks */
	int members; /* size of the group; 0: the settings do not say */
	uint8_t session[SR_SESSION_BYTES]; /* zeros: none */
};

/* `sreplay record` sets this and waits at its end for the processes that have it. */
#define SR_ENV_SESSION "SREPLAY_SESSION" /* SR_SESSION_BYTES in hexadecimal */

/*
 * ... and this, to the number of the process that becomes COMMAND: that one does not run if it
 * cannot be recorded.  It is not set with --or-run.
 */
#define SR_ENV_MUST_RECORD "SREPLAY_MUST_RECORD"

/*
 * Reads the environment (read_settings.c). settings->trace is NULL if no recording is asked
 * for. Returns 0, or -EINVAL after a message on standard error that names the variable.
 */
int sr_settings_read(struct sr_settings *settings);

/* The variable by which a launcher has given this process its rank; NULL: none has. */
const char *sr_launchers_rank(void);

#endif
