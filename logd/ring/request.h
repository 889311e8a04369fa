/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request.h: requests to the daemon, one at a time (protocol.h).
 *
 * For use inside recorded processes: raw system calls only, no allocation, errno unchanged.  Any
 * thread, but one at a time for each socket.
 */
#ifndef LOGD_RING_REQUEST_H
#define LOGD_RING_REQUEST_H

#include <stdbool.h>

#include "logd/ring/protocol.h"

struct iovec;

/* A connected socket with a high number, the caller's to close; or -errno (-EAGAIN: too many
 * processes wait for the daemon; -EACCES: it is another user's). */
int sr_request_connect(const char *socket_path);

/*
 * Sends the request (with send_fd unless that is -1) and waits for its answer.  *answer_fd: the
 * descriptor that came with it, the caller's to close, or -1; where answer_fd is NULL it is
 * closed.  0 or -errno of the connection (-ETIMEDOUT); answer->error is the daemon's own.
 */
int sr_request(int socket, const struct sr_message *request, int send_fd, struct sr_message *answer,
	       int *answer_fd, int timeout_ms);

/*
 * Asked every SR_REQUEST_LOOK_MS while a request waits: is it worth waiting on?  progress: the
 * daemon has got on with the request since the last time.
 */
struct sr_request_wait {
	bool (*goes_on)(void *owner, bool progress);
	void *owner;
};
#define SR_REQUEST_LOOK_MS 20

/* The same as sr_request, for as long as the owner says; then -ETIMEDOUT. */
int sr_request_while(int socket, const struct sr_message *request, int send_fd,
		     struct sr_message *answer, int *answer_fd, const struct sr_request_wait *wait);

/* Sends a message that has no answer. */
int sr_request_send(int socket, const struct sr_message *message, int fd,
		    const struct sr_request_wait *wait);

/*
 * A memfd with these texts one after the other, to be sent; the caller's to close; or -errno.  The
 * daemon at socket_path makes it where the limit on the size of files is too low for it.
 */
int sr_request_memfd(const struct iovec *texts, int n, const char *socket_path);

/* Zeroes a message and fills in what is the same in all of this type. */
void sr_message_init(struct sr_message *m, enum sr_message_type type);

#endif
