/* SPDX-License-Identifier: BSD-2-Clause */
/* record_options.h: the options of `sreplay record`, made of the settings in settings.def. */
#ifndef REPLAY_COMMAND_RECORD_OPTIONS_H
#define REPLAY_COMMAND_RECORD_OPTIONS_H

#include <stdbool.h>

#include "shim/core/setting.h"

struct sr_record_options {
	/* As the settings' variables have them; NULL: the option was not given. */
	const char *value[SR_SETTING_COUNT];
	char **command;
	char *claimed; /* the trace's directory, if it was made for a default name; NULL */
};

/*
 * Ends the process with SR_EXIT_FAILED, after a message of the caller's that says why COMMAND
 * cannot be recorded.  With --or-run it becomes COMMAND instead, unrecorded.
 */
void __attribute__((noreturn)) sr_record_refuse(const struct sr_record_options *options);

/* Is --or-run given, or its variable? */
bool sr_record_or_run(const struct sr_record_options *options);
bool sr_record_is_from_start(const struct sr_record_options *options);
bool sr_record_is_quiet(const struct sr_record_options *options);
bool sr_record_native_libc(const struct sr_record_options *options);

/*
 * Ends the process with a message if the arguments are wrong, or ask for help.  So it does if an
 * environment variable has a value that it cannot have, or a name that a setting had before: the
 * command would not be recorded.
 */
void sr_record_options_parse(int argc, char **argv, struct sr_record_options *options);

#endif
