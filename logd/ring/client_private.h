/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client_private.h: what the modules of client.h share.
 *
 * client.c        the connection's life, and its lock
 * client_hello.c  introducing the process to a daemon, and explaining why that failed
 * client_rings.c  areas, and the rings in them
 * client_resume.c going on with the successor of a daemon that is gone
 * client_stall.c  how long to wait for a daemon, and what is said about that
 * client_files.c  noting files
 * client_query.c  questions that need no hello
 */
#ifndef LOGD_RING_CLIENT_PRIVATE_H
#define LOGD_RING_CLIENT_PRIVATE_H

#include <errno.h>

#include "logd/base/rawsys.h"
#include "logd/ring/area.h"
#include "logd/ring/client_state.h"
#include "logd/ring/request.h"

/* Milliseconds between two tries to reach a daemon, while there is none. */
#define RETRY_MS     20
/* A daemon that gets on with nothing for so long is handed everything again. */
#define SILENT_MS    2000
/* A daemon that is gone has a successor within this time, or none. */
#define SUCCESSOR_MS 5000

/* It has introduced itself, and has not given up since. */
static inline bool sr_client_is_live(const struct sr_client *c)
{
	return c->state == SR_CLIENT_LIVE;
}

/* The daemon died before it answered: its successor needs the request again. */
static inline bool sr_client_is_broken(int err)
{
	return err == -ECONNRESET || err == -EPIPE || err == -ENOTCONN || err == -EBADF;
}

/* client.c: a process's one lock, never held while a ring waits.  False: this thread has it. */
bool sr_client_lock(struct sr_client *c);
bool sr_client_try_lock(struct sr_client *c);
void sr_client_unlock(struct sr_client *c);

/* All of these are called with the lock held, or before other threads know the client. */

/* client.c */
void sr_client_disconnect(struct sr_client *c);

/* client_hello.c: 0 or -errno. */
int sr_client_make_hello(struct sr_client *c, const struct sr_hello *h);
/* Connects and says hello; answer->text is the daemon's reason where its error is returned. */
int sr_client_greet(struct sr_client *c, struct sr_message *answer);
/*
 * The first time: a daemon that dies meanwhile has a successor soon.  err: what failed before
 * this, or 0.  0, or -errno and a sentence that names the socket.
 */
int sr_client_introduce(struct sr_client *c, const char *socket_path, int err, char *error,
			size_t error_size);

/* client_rings.c */
/* An area, and where its rings are mapped: they stay so, for the next thread. */
struct sr_client_area {
	struct sr_area area;
	uint32_t cursor; /* where a free slot is looked for first */
	struct sr_ring_shared *at[SR_AREA_SLOTS];
};
/* Hands all areas to a daemon that may know them.  0 or -errno. */
int sr_client_resume_areas(struct sr_client *c);
void sr_client_stop_rings(struct sr_client *c, int error);
void sr_client_free_areas(struct sr_client *c);
/* Their descriptors; the rings stay mapped. */
void sr_client_close_areas(struct sr_client *c);
/* Is all of the slot that was committed before sr_client_flush written? */
void sr_client_flush(struct sr_client *c);
bool sr_client_is_written(const struct sr_client_area *a, uint32_t slot);

/* client_resume.c */
bool sr_client_has_hung_up(const struct sr_client *c);
/* Tries once to reach a daemon, if it is time to. */
void sr_client_reconnect(struct sr_client *c);
/* Tries as long as it is worth waiting. */
void sr_client_await(struct sr_client *c);
void sr_client_give_up(struct sr_client *c, int error);

/* client_stall.c */
/* What a request of this client waits by: sr_client_goes_on. */
struct sr_request_wait sr_client_wait(struct sr_client *c);
/*
 * Asked again and again by whoever waits: is it worth waiting on?  Says what is waited for, once.
 * progress: what this waits for has got on.
 */
bool sr_client_goes_on(struct sr_client *c, bool progress);
/* Has the daemon got on with nothing for SILENT_MS?  True once for each time. */
bool sr_client_is_silent(struct sr_client *c);

#endif
