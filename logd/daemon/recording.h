/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recording.h: the recorded processes of this daemon.
 *
 * A recording begins with its process's hello and lasts until the last record is written.
 * It outlives its connection (a program may close any file descriptor) and ends with the
 * process, whose end a pidfd reports.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_DAEMON_RECORDING_H
#define LOGD_DAEMON_RECORDING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "logd/daemon/hello.h"
#include "logd/daemon/tally.h"
#include "logd/ring/protocol.h"
#include "logd/service/connection.h"
#include "logd/writer/served.h"

struct claim;
struct drain;
struct files;
struct read_files;

struct recording {
	struct source source; /* the pidfd */
	struct recordings *list;
	struct recording *next;
	struct connection *connection; /* NULL: it is closed */
	uint8_t process[SR_PROCESS_ID_BYTES];
	uint8_t session[SR_SESSION_BYTES];
	pid_t pid;
	int32_t rank;
	struct sr_image_origin image; /* zeros: it is the first one */
	bool is_late;                 /* it ran before it was recorded */
	bool is_further;              /* an image or a child of a process that is recorded */
	struct claim *claim; /* its place is being made; NULL: it is there */
	struct sr_message hello; /* the request, meanwhile */
	unsigned int steps;  /* of the claim, when the process was last told */
	struct trace_place place;
	int doorbell; /* number of its drain thread */
	bool dead;
	struct served *areas;
	struct read_files *files;    /* NULL: no memory */
	_Atomic unsigned files_busy; /* notes of files that are on their way */
	bool files_ended;            /* what was replaced is on its way into the trace, or there */
	struct served_sums ended; /* areas */
};

/* What the layer above does for recordings. */
struct recording_events {
	/* The process has died: requests that are still in its socket are to be served. */
	void (*last_words)(void *owner, struct connection *c);
	/* A recording has ended, or may have. */
	void (*progressed)(void *owner);
};

struct recordings {
	struct loop *loop;
	struct drain *drain;
	struct files *files;
	int event_fd; /* wakes the main thread for recordings_progress */
	const struct recording_events *events;
	void *owner;
	struct recording *first;
	uint64_t ended; /* how many so far */
	struct tallies tallies;
};

/* That of the process at the other end of c; NULL: it has not introduced itself. */
struct recording *recording_of(const struct recordings *list, const struct connection *c);

/*
 * A process introduces itself.  body_fd: the texts of its hello, or -1; true: it is taken over.
 * Answered now, or when the process's place in the trace is made.
 */
bool recording_hello(struct recordings *list, struct connection *c, const struct sr_message *hello,
		     int body_fd);

/* Tells processes that wait for their places if there is progress.  True: some wait. */
bool recordings_show_progress(struct recordings *list);

/* The connection is closed; its recording goes on. */
void recordings_forget(struct recordings *list, const struct connection *c);

/*
 * An area for its rings.  *fd: the memfd that came with m, or -1; set to -1 where it is taken over,
 * and to that of a new area, which stays the recording's.  0 or -errno.
 */
int recording_add_area(struct recording *r, const struct sr_message *m, int *fd);

/* Notes a file that the process reads, and answers then; fd stays the caller's.  0 or -errno. */
int recording_add_file(struct recording *r, const struct sr_message *m, int fd);
/* Answers when the files are held of which records have told.  0 or -errno. */
int recording_await_held(struct recording *r, const struct sr_message *m);

/* Something has ended: answers and frees what that completes. */
void recordings_progress(struct recordings *list);

/* False: some hang, and may not be freed. */
bool recordings_free(struct recordings *list);

#endif
