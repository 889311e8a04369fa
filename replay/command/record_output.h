/* SPDX-License-Identifier: BSD-2-Clause */
/* record_output.h: whether a trace can be written, asked before the command runs. */
#ifndef REPLAY_COMMAND_RECORD_OUTPUT_H
#define REPLAY_COMMAND_RECORD_OUTPUT_H

#include <stdbool.h>

/*
 * False, after a message: the directory is no trace and has other files, cannot be made or written
 * to, or has the rank already (-1: no rank of this process is recorded).  Leaves nothing behind.
 * quiet: a file system that is slow is not named while it is waited for.
 */
bool sr_output_is_usable(const char *trace, long rank, bool quiet);

#endif
