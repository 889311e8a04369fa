/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connection.h: a process that is connected to the daemon, and the answers to its requests.
 *
 * The daemon's main thread only.  Answers never wait: a process that does not read
 * them is noticed when the daemon receives from it next.
 */
#ifndef LOGD_SERVICE_CONNECTION_H
#define LOGD_SERVICE_CONNECTION_H

#include <sys/types.h>

#include "logd/ring/protocol.h"
#include "logd/service/loop.h"

struct connection {
	struct source source;
	pid_t pid;
};

/* Sends m as the answer to request; fd goes with it, -1: none. */
void connection_answer(struct connection *c, const struct sr_message *request, struct sr_message *m,
		       int fd);

/* Answers with 0, or with -errno and a sentence; an empty one becomes that of the errno. */
void connection_answer_error(struct connection *c, const struct sr_message *request, int error,
			     const char *text);

#endif
