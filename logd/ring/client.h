/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client.h: a recorded process's connection to sreplay-logd.
 *
 * Lives in libsreplay_verbs.so under the same rules as ring.h: no malloc, no
 * libc function that the library interposes, errno untouched.  Any thread may
 * call any of these functions; they take one lock, and return -EDEADLK (or do
 * nothing) when a signal handler enters them while its own thread holds it.
 *
 * Rings stay where the caller keeps them; the client remembers them so that it
 * can hand them over again to a daemon that was restarted.
 */
#ifndef LOGD_RING_CLIENT_H
#define LOGD_RING_CLIENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/ring/protocol.h"
#include "logd/ring/ring.h"

struct sr_hello {
	uint32_t version; /* SR_TRACE_VERSION */
	int32_t rank;
	uint32_t flags;        /* stored, not looked at */
	uint64_t stack;        /* stored, not looked at */
	const char *trace_dir; /* absolute, or relative to the process's directory */
	const char *schema;    /* JSON text that describes the call records */
	size_t schema_size;
	const char *extra_json; /* a JSON object, or NULL */
	const uint8_t *session; /* SR_SESSION_BYTES: its `sreplay record`; or NULL */
};

struct sr_client_ring;

enum sr_client_state {
	SR_CLIENT_NONE, /* zeroed: every function finds nothing to do */
	SR_CLIENT_LIVE,
	SR_CLIENT_GIVEN_UP, /* no daemon came in time, or it refused: the rings are stopped */
};

/* Caller provides the storage, zeroed; fields are private to client.c. */
struct sr_client {
	_Atomic uint32_t lock; /* thread id of its holder */
	enum sr_client_state state;
	int socket;
	int hello_fd; /* memfd with the hello's texts, said again to a new daemon */
	struct sr_message hello;
	char path[108];
	void *doorbell_page;
	struct sr_client_ring *rings;
	uint32_t n_rings, room_rings;
	int64_t lost_since; /* ms of the monotonic clock; 0 while connected */
	int64_t next_try;
	int64_t stall_timeout_ms;
	uint64_t emptied; /* bytes of all rings, and when they were seen to grow */
	int64_t emptied_at, looked_at;
	void (*give_up_hook)(int error);
};

/* How long a process whose daemon is gone waits for the next one before it goes on unrecorded. */
#define SR_CLIENT_STALL_TIMEOUT_MS 30000

/* 0, or -errno with a sentence for the user in error. */
int sr_client_connect(struct sr_client *c, const char *socket_path, const struct sr_hello *hello,
		      char *error, size_t error_size);

/* Hand a ring over; from its return on the daemon empties it.  -errno: the ring is not recorded. */
int sr_client_add_ring(struct sr_client *c, uint32_t thread, struct sr_ring *ring);

/*
 * The thread is done: the ring is closed and, once the daemon has written what
 * is in it, forgotten and detached.  Takes a millisecond, or as long as it
 * takes a dead daemon's successor to come.
 */
void sr_client_remove_ring(struct sr_client *c, struct sr_ring *ring);

/*
 * The process is about to read this regular file, open as fd: the daemon notes
 * its size and content, and with keep has the content in the trace.  path: as
 * the process sees it, or "".  For the first use of each; returns when the
 * daemon has the file.  -EINVAL: it is none; -errno: it is not noted.
 */
int sr_client_add_file(struct sr_client *c, int fd, const char *path, bool keep);

/* 0: everything committed before the call is written; -ETIMEDOUT, -ENOTCONN. */
int sr_client_finish(struct sr_client *c, int timeout_ms);

/*
 * Notice a daemon that is dead or does nothing any more; reconnect, say hello again and hand all
 * rings over again.  Called by rings that wait for room; the caller may add calls of its own where
 * it can afford a system call.
 */
void sr_client_check(struct sr_client *c);

/* Change SR_CLIENT_STALL_TIMEOUT_MS; < 0: wait for ever. */
void sr_client_set_stall_timeout(struct sr_client *c, int64_t ms);

/*
 * Called once, when the client gives up and all rings are stopped; from any
 * thread, with the client's lock held.
 */
void sr_client_set_give_up_hook(struct sr_client *c, void (*hook)(int error));

/*
 * In the child after fork(): forget the parent's daemon and rings without a
 * word to either.  The rings are detached too.  The struct may be used for a
 * connect of the child's own afterwards.
 */
void sr_client_abandon(struct sr_client *c);

/* ---- for the sreplay command and tests: no hello needed ---- */

/*
 * Wait until no stream of the trace is being written by a process of this
 * session (SR_SESSION_BYTES), or by any (NULL).  0, -ETIMEDOUT, -errno of
 * connecting (-ECONNREFUSED, -ENOENT: no daemon, so nobody writes).
 */
int sr_client_wait_trace(const char *socket_path, const char *trace_dir, const uint8_t *session,
			 int timeout_ms);

/* The daemon's report: a memfd with its text, or -errno. */
int sr_client_status(const char *socket_path);

#endif
