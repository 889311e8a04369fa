/* SPDX-License-Identifier: BSD-2-Clause */
/* record_end.h: what `sreplay record` says at its end. */
#ifndef REPLAY_COMMAND_RECORD_END_H
#define REPLAY_COMMAND_RECORD_END_H

#include <stdbool.h>

#include "logd/ring/client.h"

/* "recorded 3 ranks to X.srec (1.2 MB)" */
void sr_record_say_end(const char *trace, const struct sr_session_end *end);

/*
 * There is no trace: why, as far as the command shows it, and what to do.  from_start: of that it
 * was told already.
 */
void sr_record_say_nothing(const char *command, bool from_start);

#endif
