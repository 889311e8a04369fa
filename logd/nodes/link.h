/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * link.h: a connection of two nodes' daemons, in pieces of fixed size:
 *
 *   answerer  hello   what it is, its nonce
 *   asker     ask     the job's public id, its nonce, its proof
 *   answerer  accept  its proof and the header of its stream
 *   asker     header  of its stream
 *   both      sealed  struct question, struct reply
 *
 * Each side reads one piece at a time and knows which comes next.  What the pieces
 * mean is node.c's affair: it is told by the functions at the end.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_NODES_LINK_H
#define LOGD_NODES_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "logd/nodes/directory.h"
#include "logd/nodes/secret.h"
#include "logd/daemon/server.h"

struct job;

struct question {
	uint64_t number;
	uint8_t gid[SR_GID_BYTES];
	uint32_t qp;
	uint32_t asker; /* its member, or SR_OUTSIDER */
};

struct reply {
	uint64_t number;
	struct sr_found found;
	int32_t error;
	uint32_t reserved;
};

#define LINK_PIECE_MAX 256

enum stage { CONNECTING, WANT_HELLO, WANT_ASK, WANT_ACCEPT, WANT_HEADER, OPEN };

struct link {
	struct source source;
	struct link *next, **list;
	const struct job *job; /* of an answerer NULL until the ask */
	enum secret_side side;
	enum stage stage;
	struct sockaddr_storage address;
	struct secret_talk talk;
	struct secret_stream *stream;
	int64_t since;
	uint8_t in[LINK_PIECE_MAX];
	size_t in_size;
	uint8_t *out; /* what the socket would not take yet */
	size_t out_size;
};

/* Links are kept in a list; these add to it. NULL: not even begun. */
struct link *link_connect(struct server *s, struct link **list, const struct job *job,
			  const struct sockaddr_storage *a);
struct link *link_accept(struct server *s, struct link **list, int fd,
			 const struct sockaddr_storage *from);
void link_free(struct server *s, struct link *l);

/* Of an open link.  0, or -errno: it is of no use any more, and to be given up by the caller. */
int link_ask(struct server *s, struct link *l, const struct question *q);
int link_answer(struct server *s, struct link *l, const struct reply *r);

/* In node.c.  -errno: the link is given up. */
int node_link_open(struct server *s, struct link *l);
int node_take_question(struct server *s, struct link *l, const struct question *q);
int node_take_reply(struct server *s, struct link *l, const struct reply *r);
/* err: why, of one that is CONNECTING. */
void node_link_lost(struct server *s, struct link *l, int err);

#endif
