/* SPDX-License-Identifier: BSD-2-Clause */
/* json.h: the outcome of a rank's replay as a line of JSON, for `sreplay replay --json FILE`. */
#ifndef REPLAY_HOST_VERDICT_JSON_H
#define REPLAY_HOST_VERDICT_JSON_H

#include "replay/host/verdict/verdict.h"

/*
 * After sr_verdict_say(), which returned the status.  Appends the line to the file in one write, as the
 * processes of all ranks do.
 */
void sr_verdict_write(int file, const struct sr_verdict *v, const struct sr_replay_control *c,
		      int status);

#endif
