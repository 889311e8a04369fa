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
 * Rings stay the caller's.  The client remembers them, to hand them over to a daemon's successor.
 */
#ifndef LOGD_RING_CLIENT_H
#define LOGD_RING_CLIENT_H

#include "logd/ring/client_state.h"

/* How long a process waits for the successor of its daemon before it goes on unrecorded. */
#define SR_CLIENT_STALL_TIMEOUT_MS 30000

/*
 * Connects to the daemon at socket_path and introduces the process.  On -errno there is a
 * sentence for the user in error, and *c is zeroed.
 */
int sr_client_connect(struct sr_client *c, const char *socket_path, const struct sr_hello *hello,
		      char *error, size_t error_size);

/*
 * Hands a ring over; the daemon empties it from then on.  It must stay where it is until
 * sr_client_remove_ring or sr_client_abandon.  -errno: it is not recorded.
 */
int sr_client_add_ring(struct sr_client *c, uint32_t thread, struct sr_ring *ring);

/*
 * The thread has ended: closes the ring, waits until the daemon has written what is in it, and
 * detaches it.  That takes a millisecond, or as long as a dead daemon's successor takes to come.
 */
void sr_client_remove_ring(struct sr_client *c, struct sr_ring *ring);

/*
 * The process is about to read this regular file, open as fd: the daemon notes its size and
 * content (keep: the content itself goes into the trace).  path: as the process sees it, or "".
 * note: the number of what is noted; a copy of the file may be given under the file's number.
 * To be called at the first use of each file; returns when the daemon has the file open.
 * -EINVAL: not a regular file.
 */
int sr_client_add_file(struct sr_client *c, int fd, const char *path, uint32_t note,
		       bool keep);

/* Waits until all that was committed before the call is written.  -ETIMEDOUT, -ENOTCONN. */
int sr_client_finish(struct sr_client *c, int timeout_ms);

/*
 * Looks whether the daemon is dead or silent, and if so reconnects and hands all rings over
 * again.  Rings that wait for room call it; the caller may do so where a system call is cheap.
 */
void sr_client_check(struct sr_client *c);

/* Changes SR_CLIENT_STALL_TIMEOUT_MS; < 0: waits for ever.  Before other threads use c. */
void sr_client_set_stall_timeout(struct sr_client *c, int64_t ms);

/*
 * hook is called once, when the client gives up and all rings are stopped: from any thread, with
 * the client's lock held, with an errno.  To be set before other threads use c.
 */
void sr_client_set_give_up_hook(struct sr_client *c, void (*hook)(int error));

/*
 * In the child after fork(): drops the parent's connection without a word to the daemon, and
 * detaches the rings.  Takes no lock.  *c may be connected anew afterwards.
 */
void sr_client_abandon(struct sr_client *c);

/* ---- for the sreplay command and tests, without a client ---- */

/*
 * Waits until no process of this session (SR_SESSION_BYTES; NULL: of any) writes to the trace.
 * -ETIMEDOUT; -ECONNREFUSED, -ENOENT: there is no daemon, so nothing is written.
 */
int sr_client_wait_trace(const char *socket_path, const char *trace_dir, const uint8_t *session,
			 int timeout_ms);

/* The daemon's report as a memfd with its text, which is the caller's to close; or -errno. */
int sr_client_status(const char *socket_path);

#endif
