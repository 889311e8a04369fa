/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * streams.h: which streams a rank's replay reads.  That of a child has the threads of its parents up to
 * the forks, too, and the thread that forked goes on as the child's.
 */
#ifndef REPLAY_HOST_STREAMS_H
#define REPLAY_HOST_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/abi/control.h"
#include "replay/host/feeder.h"
#include "replay/host/forks.h"

/*
 * The threads of all processes, by number: is there such a stream?  *n: how many there are.  The caller
 * frees it.  NULL after a message.
 */
bool *sr_streams_list(const struct sr_forks *forks, size_t *n);

/*
 * Opens what the thread's feeder reads.  fork: the forks at which the process goes on as its child.  place: of the
 * feeder's ring.  False after a message; then the feeder is not open.
 */
bool sr_streams_open(struct sr_feeder *f, const struct sr_forks *forks,
		     const struct sr_replay_fork *fork, uint32_t thread,
		     const struct sr_feeder_rings *rings, size_t place);

#endif
