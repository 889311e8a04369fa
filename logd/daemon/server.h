/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * server.h: what the daemon's main thread knows.  Nobody else touches it.
 *
 * peer       a connection: a recorded process, or someone who asks
 * recording  a recorded process, from its hello until its last record is
 *            written; it outlives its peer (a program may close any file
 *            descriptor) and ends with the process, which a pidfd tells
 * stream     one of its threads' rings (stream.h)
 */
#ifndef LOGD_DAEMON_SERVER_H
#define LOGD_DAEMON_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "logd/ring/protocol.h"

struct server;
struct stream;
struct drain;
struct directory;
struct nodes;
struct files;

/* Something that epoll watches; embedded first in what it belongs to. */
struct source {
	void (*ready)(struct server *server, struct source *source);
	int fd;
};

struct peer {
	struct source source;
	struct peer *next;
	pid_t pid;
	struct recording *recording;
	bool stranger; /* another user's: it is told so, and nothing else */
	bool waits_for_trace;
	struct sr_message wait; /* that request */
	dev_t trace_device;
	ino_t trace_inode;
};

struct recording {
	struct source source; /* the pidfd */
	struct recording *next;
	struct peer *peer; /* NULL: it has lost its connection, or is dead */
	uint8_t process[SR_PROCESS_ID_BYTES];
	uint8_t session[SR_SESSION_BYTES];
	pid_t pid;
	int32_t rank;
	char *dir;
	int trace_fd, rank_fd;
	dev_t trace_device;
	ino_t trace_inode;
	int doorbell; /* number of its drain thread */
	bool dead, finishing;
	struct sr_message finish; /* the request, while finishing */
	struct stream *streams;
	_Atomic unsigned files_busy; /* notes of files that are on their way */
	/* Of streams that have ended. */
	uint64_t stored_bytes, records, dropped;
};

struct server {
	int epoll_fd;
	struct source listener, event, signals;
	int64_t listener_rests_until; /* nothing to accept with before; 0: it is watched */
	bool listener_complained;
	const char *socket_path;
	struct drain *drain;
	struct files *files;
	struct peer *peers;
	struct recording *recordings;
	struct directory *directory;
	struct nodes *nodes; /* NULL: no job has other nodes */
	bool stopping;
	int64_t idle_since;
	uint64_t recordings_ended;
};

int server_watch(struct server *s, struct source *source);
void server_unwatch(struct server *s, struct source *source);

/* ---- peer.c ---- */

void peer_accept(struct server *s, struct source *listener);
/* Ends the rest that a shortage of descriptors forced on the listener; ms until it is due, or -1.
 */
int peers_wake_listener(struct server *s);
void peer_free(struct server *s, struct peer *p);
/* Answers requests until there is none left; the peer may be gone afterwards. */
void peer_serve(struct server *s, struct peer *p);
void peer_answer_finish(struct recording *r);
/* Answers all whose trace is not written any more. */
void peers_answer_waits(struct server *s);

/* ---- recording.c ---- */

/* 0, -errno and a sentence.  body_fd: the hello's texts. */
int recording_hello(struct server *s, struct peer *p, const struct sr_message *hello, int body_fd,
		    char *error, size_t error_size);
/* Takes memfd on success. */
int recording_add_ring(struct server *s, struct recording *r, const struct sr_message *m, int memfd,
		       char *error, size_t error_size);
/* A file that the process reads; fd stays the caller's. */
int recording_add_file(struct server *s, struct recording *r, const struct sr_message *m, int fd);
void recording_finish(struct server *s, struct recording *r);
/* Streams have got somewhere: answer, free, forget. */
void recordings_progress(struct server *s);
void recordings_free(struct server *s);

/* ---- report.c ---- */

/* A memfd with the text of --status. */
int report_make(const struct server *s);

#endif
