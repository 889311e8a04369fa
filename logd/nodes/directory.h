/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * directory.h: which process has a queue pair, and where is that process's clock region?
 *
 * Every process of a job that runs under the shim, recorded or not, reports each queue
 * pair to the daemon of its node before the program gets its number.  A process that
 * connects to a queue pair asks the daemon of its own node, which asks the other
 * nodes' daemons (node.h) for those that it does not know.
 *
 * A journal next to the socket keeps what was reported, so that the successor of a killed
 * daemon goes on from there: an idle process would not notice in time to report it
 * again.  A process is forgotten when it ends.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_NODES_DIRECTORY_H
#define LOGD_NODES_DIRECTORY_H

#include <stdbool.h>

#include "logd/ring/protocol.h"

struct connection;
struct directory;
struct loop;

/* Starts with what an earlier daemon of this socket kept in its journal.  NULL: no memory. */
struct directory *directory_open(struct loop *loop, const char *socket_path);
/* Frees it, and stops talking to other nodes.  The journal keeps processes that still run. */
void directory_close(struct directory *d);

/* Answers requests SR_MSG_JOIN to SR_MSG_QP_FIND, some of them later.  False: m is none of them. */
bool directory_serve(struct directory *d, struct connection *c, const struct sr_message *m, int fd);

/* The connection is gone: no request of it is answered any more. */
void directory_forget(struct directory *d, const struct connection *c);

/* True while a process of a job runs: a daemon with --idle-exit stays. */
bool directory_in_use(const struct directory *d);

#endif
