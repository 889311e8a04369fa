/* SPDX-License-Identifier: BSD-2-Clause */
/* record_environment.h: the environment in which `sreplay record` runs its command. */
#ifndef REPLAY_COMMAND_RECORD_ENVIRONMENT_H
#define REPLAY_COMMAND_RECORD_ENVIRONMENT_H

#include <stdint.h>

struct sr_record_options;

/* One run of a command that is recorded. */
struct sr_record_run {
	const struct sr_record_options *options;
	const char *shim, *socket_path; /* the preloaded library, and the daemon's socket */
	const uint8_t *session;		/* SR_SESSION_BYTES: what the command's processes are known by */
};

/*
 * Sets, in the command's process before it is executed, the variables of the preloaded library and of the
 * dynamic linker.  A daemon that `sreplay record` starts must not have them: it is not recorded.
 */
void sr_record_set_environment(const struct sr_record_run *r);

#endif
