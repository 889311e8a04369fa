/* SPDX-License-Identifier: BSD-2-Clause */
/* record_child.h: runs the command of `sreplay record`, and waits for its end. */
#ifndef REPLAY_COMMAND_RECORD_CHILD_H
#define REPLAY_COMMAND_RECORD_CHILD_H

struct sr_record_run;

/*
 * Returns the command's exit status, 128+N if signal N ended it.  Signals are passed on to the
 * command.  A daemon that dies meanwhile is replaced by another.
 */
int sr_record_child_run(const struct sr_record_run *r);

#endif
