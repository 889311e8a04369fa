/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * node.h: the daemons of a job's nodes ask each other for queue pairs, over TCP.
 *
 * The daemon that has a queue pair is found by the queue pair's GID where that is an IP address
 * (RoCE v2), and among the hosts that the job names.  Both sides prove that they have
 * the job's key (secret.h) before anything else is said; everything after that is
 * encrypted.  A daemon that is silent for NODE_STALL_TIMEOUT_MS counts as absent; one that has
 * answered before may just be busy, and has NODE_KNOWN_STALL_TIMEOUT_MS.  The process
 * that asked is told of an absent daemon if its host cannot be reached or if the job names it.
 * After a failed connection the host is left alone for a while (hosts.h).
 *
 * A connection stays open until it breaks; there is one for each job and host.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_NODES_NODE_H
#define LOGD_NODES_NODE_H

#include <stdint.h>

#include "logd/ring/protocol.h"

struct connection;
struct job;
struct loop;
struct nodes;

#define NODE_STALL_TIMEOUT_MS       2000
#define NODE_KNOWN_STALL_TIMEOUT_MS 12000

/* The queue pair that somebody wants to connect to. */
struct node_wanted {
	uint8_t gid[SR_GID_BYTES];
	uint32_t number;
	uint32_t asker; /* that process's number in the group, or SR_OUTSIDER */
};

/* What other nodes ask of this node's directory, and where their answers go. */
struct node_directory {
	/* The job with this id, or NULL. */
	const struct job *(*job)(void *owner, const uint8_t *id);
	/* A queue pair of this node: 0 or -ENOENT. */
	int (*find)(void *owner, const struct job *job, const struct node_wanted *wanted,
		    struct sr_found *found);
	/* Ends a nodes_ask: 0 and found, or -errno and a sentence ("": none). */
	void (*answer)(void *owner, struct connection *c, const struct sr_message *request,
		       int error, const char *text, struct sr_found *found);
};

/* NULL: no memory. */
struct nodes *nodes_open(struct loop *loop, const struct node_directory *directory, void *owner);
/* Questions that wait are dropped without an answer. */
void nodes_close(struct nodes *n);

/* Lets other nodes connect to this one.  Does nothing if it listens already. */
void nodes_listen(struct nodes *n);

/* Asks the other nodes for c, whose request this is; answer() is called once, perhaps at once. */
void nodes_ask(struct nodes *n, struct connection *c, const struct job *job,
	       const struct node_wanted *wanted, const struct sr_message *request);

/* The connection is gone: its questions are dropped. */
void nodes_forget(struct nodes *n, const struct connection *c);

#endif
