/* SPDX-License-Identifier: BSD-2-Clause */
/* requests.h: the daemon's answers to the requests of protocol.h.  Its main thread only. */
#ifndef LOGD_DAEMON_REQUESTS_H
#define LOGD_DAEMON_REQUESTS_H

#include "logd/daemon/server.h"

/* Serves one request; fd came with it (or -1) and is taken over. */
void request_serve(struct server *s, struct peer *p, const struct sr_message *m, int fd);

/* Answers the requests SR_MSG_WAIT_TRACE whose trace is complete. */
void requests_answer_waits(struct server *s);

/* Tells those that wait whether there is progress.  True: some wait. */
bool requests_show_progress(struct server *s);

#endif
