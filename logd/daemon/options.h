/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h: the command line of sreplay-logd. */
#ifndef LOGD_DAEMON_OPTIONS_H
#define LOGD_DAEMON_OPTIONS_H

#include <limits.h>
#include <stdbool.h>

#include "logd/writer/drain.h"

struct options {
	char socket[PATH_MAX];
	char log[PATH_MAX]; /* "": next to the socket */
	const char *wait_dir;
	struct drain_options drain;
	int idle_exit; /* seconds; 0: never */
	int timeout;   /* seconds, of --wait */
	bool daemonize, status;
};

/* Exits after --help, --version and a wrong command line.  Sets the address of --listen. */
void parse_options(struct options *o, int argc, char **argv);

#endif
