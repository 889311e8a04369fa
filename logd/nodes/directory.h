/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * directory.h: whose queue pair is that, and where is its process's clock region?
 *
 * Every process of a job that runs under the shim, recorded or not, tells the
 * daemon of its node of each queue pair before the program learns its number;
 * who connects to a queue pair asks the daemon of his own node, which asks that
 * of the other (node.h) if it does not know.
 *
 * What was told is kept in a journal next to the socket, so that a daemon that
 * was killed goes on from there: an idle process would not notice in time to
 * say it again.  Processes are forgotten when they end.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_NODES_DIRECTORY_H
#define LOGD_NODES_DIRECTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/ring/protocol.h"
#include "logd/nodes/secret.h"

struct directory;
struct peer;
struct server;

struct job {
	struct job *next;
	uint8_t id[SECRET_ID_BYTES];
	uint8_t key[SECRET_KEY_BYTES];
	bool has_key; /* without, it is on this node alone */
	char *hosts;  /* may be empty */
};

/* With what an earlier daemon of this socket knew.  NULL without memory. */
struct directory *directory_open(struct server *s, const char *socket_path);
/* What is known of processes that still run stays in the journal. */
void directory_close(struct server *s, struct directory *d);

/* The requests SR_MSG_JOIN to SR_MSG_QP_FIND.  False: it is none of them. */
bool directory_serve(struct server *s, struct peer *p, const struct sr_message *m, int fd);

/* Somebody is in the directory: a daemon with --idle-exit stays. */
bool directory_in_use(const struct directory *d);

/* NULL: no job has this id. */
const struct job *directory_job(const struct directory *d, const uint8_t *id);

/*
 * For the daemon of another node: a queue pair of this one.  asker: the member
 * that wants to connect to it, who gets a cell, or SR_OUTSIDER.  0 or -ENOENT.
 */
int directory_find(struct directory *d, const struct job *job, const uint8_t *gid, uint32_t number,
		   uint32_t asker, struct sr_found *found);

/* Answers a request that waited for other nodes. */
void directory_answer(struct server *s, struct peer *p, const struct sr_message *request, int error,
		      const char *text, struct sr_found *found);

#endif
