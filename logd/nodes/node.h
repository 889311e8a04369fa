/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * node.h: the daemons of a job's nodes ask each other, over TCP.
 *
 * The daemon of a queue pair is found by its GID where that is an IP address
 * (RoCE v2), and among the job's hosts, if it names them.  Both sides prove that they
 * have the job's key (secret.h) before anything else is said; then the talk is
 * encrypted.  Who is silent for NODE_STALL_TIMEOUT_MS is taken for absent, but one who
 * has answered before, and may just have much to do, for NODE_KNOWN_STALL_TIMEOUT_MS; that is
 * told to who asked, as of a host that cannot be reached, or that the job names and
 * that has no daemon.  After a failed connection a host is left alone for a while.
 *
 * Connections stay open, one for each job and host, until they break.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_NODES_NODE_H
#define LOGD_NODES_NODE_H

#include <stddef.h>
#include <stdint.h>

struct job;
struct peer;
struct server;
struct sr_message;

#define NODE_STALL_TIMEOUT_MS       2000
#define NODE_KNOWN_STALL_TIMEOUT_MS 12000

/* "ADDRESS", "ADDRESS:PORT", "[ADDRESS]:PORT": where to listen.  -EINVAL. */
int node_set_address(const char *text);

/* From the first job with a key on; does nothing if it listens already. */
void node_listen(struct server *s);
void node_close(struct server *s);

/* Asks the other nodes for p; the answer goes out by directory_answer. */
void node_ask(struct server *s, struct peer *p, const struct job *job, uint32_t member,
	      const struct sr_message *request);

/* The peer is gone: its questions are dropped. */
void node_forget_peer(struct server *s, const struct peer *p);

#endif
