/* SPDX-License-Identifier: BSD-2-Clause */
/* record_daemon.h: sees to it that sreplay-logd runs while something is recorded. */
#ifndef REPLAY_COMMAND_RECORD_DAEMON_H
#define REPLAY_COMMAND_RECORD_DAEMON_H

#include <stdbool.h>

/* Starts a daemon unless one answers at the socket.  False after a message if none can be had. */
bool sr_daemon_ensure(const char *socket_path);

#endif
