/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tally.h: what was recorded for each `sreplay record`, to be told at its end.  Of the latest ones
 * only: a session that nobody asks for is forgotten.
 *
 * The main thread's.
 */
#ifndef LOGD_DAEMON_TALLY_H
#define LOGD_DAEMON_TALLY_H

#include <stdint.h>

#include "logd/ring/protocol.h"

#define TALLIES 64

struct tally {
	uint8_t session[SR_SESSION_BYTES];
	uint32_t processes, late; /* late: those of them that ran before they were recorded */
	uint32_t unrecorded;      /* started by these, and not in their recordings */
	uint64_t stored; /* bytes */
};

struct tallies {
	struct tally list[TALLIES];
	unsigned int next; /* the oldest */
};

/*
 * So many bytes were recorded of that session.  processes: 1 for a process, 0 for a further image
 * of one; late: of those; unrecorded: others that it started.
 */
void tally_add(struct tallies *t, const uint8_t *session, unsigned int processes, unsigned int late, unsigned int unrecorded,
	       uint64_t stored);

/* NULL: none of its processes has ended. */
const struct tally *tally_of(const struct tallies *t, const uint8_t *session);

#endif
