/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h: a TCP connection between the daemons of two nodes.
 *
 * It consists of pieces of fixed size:
 *
 *   answerer  hello   what it is, its nonce
 *   asker     ask     the job's public id, its nonce, its proof
 *   answerer  accept  its proof and the header of its stream
 *   asker     header  of its stream
 *   both      sealed  struct question, struct reply
 *
 * Each side reads one piece at a time and knows which one comes next.  The owner of the
 * links gets questions and replies by its struct link_events.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_NODES_LINK_H
#define LOGD_NODES_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "logd/nodes/secret.h"
#include "logd/ring/protocol.h"
#include "logd/service/loop.h"

struct job;

/* Which process has the queue pair `qp` at the address `gid`? */
struct question {
	uint64_t number;
	uint8_t gid[SR_GID_BYTES];
	uint32_t qp;
	uint32_t asker; /* its number in the group, or SR_OUTSIDER */
};

/* The answer to the question with that number. */
struct reply {
	uint64_t number;
	struct sr_found found;
	int32_t error; /* 0 or -errno */
	uint32_t reserved;
};

#define LINK_PIECE_MAX 256

/* Which piece comes next. */
enum stage { CONNECTING, WANT_HELLO, WANT_ASK, WANT_ACCEPT, WANT_HEADER, OPEN };

struct link {
	struct source source;
	struct links *list;
	struct link *next;
	const struct job *job; /* of an answerer NULL until the ask */
	enum secret_side side;
	enum stage stage;
	struct sockaddr_storage address;
	struct secret_handshake handshake;
	struct secret_stream *stream;
	int64_t since; /* ms of the monotonic clock */
	uint8_t in[LINK_PIECE_MAX];
	size_t in_size;
	uint8_t *out; /* what the socket would not take yet */
	size_t out_size;
};

/* What the owner of links does.  Where these return -errno, the link is lost(). */
struct link_events {
	/* The job with this id, or NULL. */
	const struct job *(*job)(void *owner, const uint8_t *id);
	/* As the asker: questions can be asked now. */
	int (*opened)(void *owner, struct link *l);
	int (*question)(void *owner, struct link *l, const struct question *q);
	int (*reply)(void *owner, struct link *l, const struct reply *r);
	/* The link is of no use any more, because of err; the owner calls link_free. */
	void (*lost)(void *owner, struct link *l, int err);
};

/* All links of one owner.  first and the links' next are for walking only. */
struct links {
	struct loop *loop;
	const struct link_events *events;
	void *owner;
	struct link *first;
};

/* Begins to connect, as the asker.  NULL: there is no hope. */
struct link *link_connect(struct links *list, const struct job *job,
			  const struct sockaddr_storage *a);
/* Takes a new connection over, as the answerer.  NULL: it is closed. */
struct link *link_accept(struct links *list, int fd, const struct sockaddr_storage *from);
void link_free(struct link *l);

/* Of an open link.  0, or -errno: the caller gives the link up. */
int link_ask(struct link *l, const struct question *q);
int link_answer(struct link *l, const struct reply *r);

#endif
