/* SPDX-License-Identifier: BSD-2-Clause */
/* peer.h: answers, for the modules that serve a kind of request of their own. */
#ifndef LOGD_DAEMON_PEER_H
#define LOGD_DAEMON_PEER_H

#include "logd/ring/protocol.h"

struct peer;

/* fd: goes with it; -1 for none. */
void peer_answer(struct peer *p, const struct sr_message *request, struct sr_message *m, int fd);

/* 0, or -errno and a sentence (empty: the errno's). */
void peer_answer_error(struct peer *p, const struct sr_message *request, int error,
		       const char *text);

#endif
