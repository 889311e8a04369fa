/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trust.h: what may run in a replay, which is what the trace names.
 *
 * In the command, before the program starts.
 */
#ifndef REPLAY_HOST_START_TRUST_H
#define REPLAY_HOST_START_TRUST_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/host/start/recorded.h"

enum sr_trust {
	SR_TRUST_FULLY, /* this user's own, or the user says so: as it is */
	SR_TRUST_CONFINED,
	SR_TRUST_REFUSED, /* after a message */
};

/*
 * Did this user's own daemon record the rank on this machine (logd/trace/seal.h)?  If not, its
 * program runs in a sandbox (confine.h), and that is said; or not at all, where no sandbox can be
 * set up.  has_consent: --no-sandbox.
 */
enum sr_trust sr_trust_of(const struct sr_trace *t, const char *dir, int32_t rank, bool has_consent,
			  bool packed);

/*
 * Libraries that the environment brings into the program (LD_PRELOAD, LD_AUDIT) must be among the
 * recorded ones, whose identity sr_recorded_check_files() checks.  False after a message.
 */
bool sr_trust_check_environment(const struct sr_recorded *r);

#endif
