/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server.h: the daemon as its main thread has it.  No other thread touches this.
 *
 * peer       a connection: of a recorded process, or of one that asks (peer.h)
 * recording  a recorded process (recording.h)
 * stream     the ring of one of its threads (logd/writer/stream.h)
 */
#ifndef LOGD_DAEMON_SERVER_H
#define LOGD_DAEMON_SERVER_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/daemon/recording.h"
#include "logd/service/loop.h"

struct directory;

struct peer {
	struct connection connection;
	struct peer *next;
	bool stranger; /* another user's: each request is refused */
	bool waits_for_trace;
	struct sr_message wait; /* that request */
	uint32_t wait_progress; /* of the processes it waits for, when it was last told */
	struct sr_trace_identity trace;
};

struct server {
	struct loop loop;
	struct source listener, event, signals;
	/* Short of descriptors, the listener is not watched until then (ms); 0: it is watched. */
	int64_t listener_rests_until;
	bool listener_complained;
	const char *socket_path;
	struct recordings recordings;
	struct peer *peers;
	struct directory *directory;
	bool stopping;
	int64_t idle_since; /* 0: in use */
	int64_t progress_at; /* when those that wait are told of progress (ms); 0: nobody waits */
};

#endif
