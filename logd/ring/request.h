/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * request.h: the asking side of protocol.h, one request at a time.  Raw system
 * calls only, for use inside of the recorded process.
 */
#ifndef LOGD_RING_REQUEST_H
#define LOGD_RING_REQUEST_H

#include <stddef.h>

#include "logd/ring/protocol.h"

/* A connected socket with a high number, or -errno (-EAGAIN: too many wait for the daemon). */
int sr_talk_connect(const char *socket_path);

/*
 * Send request (with send_fd unless it is -1), wait for the answer.  A file
 * descriptor that comes with it is put into *answer_fd (-1: none), or closed
 * when answer_fd is NULL.  0, or -errno of the talking; what the daemon thinks
 * is in answer->error.
 */
int sr_talk(int socket, const struct sr_message *request, int send_fd, struct sr_message *answer,
	    int *answer_fd, int timeout_ms);

/* A sealed memfd with these texts one after the other. */
struct iovec;
int sr_talk_memfd(const struct iovec *texts, int n);

void sr_message_init(struct sr_message *m, enum sr_message_type type);

#endif
