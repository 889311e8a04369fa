/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client.h: a recorded process's connection to sreplay-logd.
 *
 * It runs inside the recorded process, under the rules of ring.h: no malloc, no libc function
 * that libsreplay_verbs.so intercepts, errno unchanged.
 *
 * Any thread may call any function.  They share one lock; a signal handler that interrupts its
 * own thread while that holds the lock gets -EDEADLK, or nothing is done.  They return 0 or
 * -errno unless they say otherwise; -ENOTCONN: the client has given up, or was never connected.
 *
 * Rings lie in areas (area.h), which the client hands over to a daemon's successor.
 */
#ifndef LOGD_RING_CLIENT_H
#define LOGD_RING_CLIENT_H

#include "logd/ring/client_state.h"
#include "logd/ring/request.h"

/*
 * A process waits for its daemon, or for the successor of one that is gone, as long as that gets on
 * with what it has to write; and for this long if it does not, counted once for all threads.  Then
 * the process goes on unrecorded.
 */
#define SR_CLIENT_STALL_TIMEOUT_MS 5000

/*
 * Connects to the daemon at socket_path and introduces the process.  On -errno there is a
 * sentence for the user in error, and *c is zeroed.
 */
int sr_client_connect(struct sr_client *c, const char *socket_path, const struct sr_hello *hello,
		      char *error, size_t error_size);

/*
 * A ring of `bytes` (a power of two) for a thread; the daemon empties it from then on, or stops it
 * if it cannot be recorded.  -errno: the thread is not recorded.
 */
int sr_client_open_ring(struct sr_client *c, uint32_t thread, size_t bytes, struct sr_ring *ring);

/*
 * The thread has ended: closes its ring.  The daemon writes what is in it, without the thread, which
 * does not wait.  Takes no lock.
 */
void sr_client_close_ring(struct sr_client *c, struct sr_ring *ring);

/* The lowest of the client's descriptors that is at least from, or -1.  Takes no lock. */
int sr_client_own_fd_from(const struct sr_client *c, int from);

/*
 * The process is about to read this regular file, open as fd: the daemon notes its size and
 * content (keep: the content itself goes into the trace).  path: as the process sees it, or "".
 * note: the number of what is noted; a copy of the file may be given under the file's number.
 * To be called at the first use of each file; returns when the daemon has the file open.
 * -EINVAL: not a regular file.
 */
int sr_client_add_file(struct sr_client *c, int fd, const char *path, uint32_t note,
		       bool keep);

/*
 * Waits until the daemon holds the small files open of which records have told, in case that others replace them; as long as it
 * gets on.  Call when these records are written (sr_client_finish).
 */
void sr_client_await_held(struct sr_client *c);

/*
 * Waits until all that was committed before the call is written, and until closed rings have ended
 * in the trace; timeout_ms < 0: no limit but the stall timeout.  -ETIMEDOUT, -ENOTCONN.
 */
int sr_client_finish(struct sr_client *c, int timeout_ms);

/* The process has started another one, which is not in its recording: counts it, for the session's end. */
void sr_client_count_unrecorded(struct sr_client *c);

/*
 * For threads that wait, every SR_RING_WAIT_MS or so: if the daemon is dead or silent, reconnects
 * and hands all rings over again; if the stall timeout is over, gives up.
 */
void sr_client_check(struct sr_client *c);

/* Changes SR_CLIENT_STALL_TIMEOUT_MS; < 0: waits for ever.  Before other threads use c. */
void sr_client_set_stall_timeout(struct sr_client *c, int64_t ms);

/* To be set before other threads use c. */
void sr_client_set_hooks(struct sr_client *c, const struct sr_client_hooks *hooks);

/*
 * The recording ends here, though the process goes on: stops all rings with this errno.  When the
 * caller has closed them, sr_client_leave waits until they are written, and closes the client's
 * descriptors.  Other threads may still look at their rings.
 */
void sr_client_stop(struct sr_client *c, int error);
void sr_client_leave(struct sr_client *c);

/*
 * In the child after fork(): drops the parent's connection without a word to the daemon, and
 * detaches the rings.  Takes no lock.  *c may be connected anew afterwards.
 */
void sr_client_abandon(struct sr_client *c);

/* ---- for the sreplay command and tests, without a client ---- */

/*
 * Waits until no process of this session (SR_SESSION_BYTES; NULL: of any) writes to the trace, for
 * timeout_ms (-1: no limit) and while `wait` (request.h; NULL: always) goes on.  -ETIMEDOUT;
 * -ECONNREFUSED, -ENOENT: there is no daemon, so nothing is written.
 */
int sr_client_wait_trace(const char *socket_path, const char *trace_dir, const uint8_t *session,
			 int timeout_ms, const struct sr_request_wait *wait);

/* The same; *end: what that session's processes have recorded, of those that ended under this
 * daemon. */
struct sr_session_end {
	uint32_t processes;
	uint32_t late;   /* of these: not recorded from their start */
	uint64_t stored; /* bytes */
	uint32_t unrecorded; /* processes that they started, and that are not in their recordings */
};
int sr_client_wait_session(const char *socket_path, const char *trace_dir, const uint8_t *session,
			   int timeout_ms, const struct sr_request_wait *wait,
			   struct sr_session_end *end);


/*
 * The daemon's report as a memfd with its text, which is the caller's to close; or -errno
 * (-ETIMEDOUT: it does not answer in time).
 */
int sr_client_status(const char *socket_path, int timeout_ms);

/* A sentence about the daemon of this process number (0: not known) that does not answer. */
void sr_client_describe_daemon(char *text, size_t size, int daemon);

#endif
