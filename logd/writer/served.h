/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * served.h: an area of a process's rings (logd/ring/area.h), as the daemon serves it.
 *
 * The main thread makes it and gives it to a drain thread, which finds the slots that the process
 * opens, makes streams of them, and frees the slots when the streams have ended.  When the process
 * is dead and all its streams have ended, the area is the main thread's again.
 */
#ifndef LOGD_WRITER_SERVED_H
#define LOGD_WRITER_SERVED_H

#include <pthread.h>

#include "logd/ring/area.h"
#include "logd/writer/stream.h"

/* Of the streams that have ended, or of all. */
struct served_sums {
	uint64_t threads, stored, records, lag, dropped, unrecorded;
};

struct served {
	struct served *next;      /* of the drain thread's list */
	struct served *next_mine; /* of the recording's list */
	struct sr_area area;
	uint32_t number; /* among those of the process */
	struct stream_origin origin;
	bool resume; /* an earlier daemon has served it */

	uint32_t seen_opened; /* the slots that were opened before are known */
	bool seen_gone;
	struct stream *at[SR_AREA_SLOTS];
	_Atomic bool gone;  /* the main thread: the process is dead */
	_Atomic bool replaced; /* ... or rather, it has executed another program; set before */
	_Atomic bool ended; /* the drain thread: that is over */

	pthread_mutex_t lock; /* for what follows; no other lock is taken under it */
	struct stream *streams;
	struct served_sums ended_sums;
};

/* Takes the area over.  NULL: no memory. */
struct served *served_new(const struct sr_area *area, uint32_t number,
			  const struct stream_origin *origin, bool resume);
/* Frees it with its streams, as they are. */
void served_free(struct served *s);

/* ---- the drain thread ---- */

/* Puts the streams of slots that are new onto the list.  Nothing of them is opened yet. */
void served_look(struct served *s, struct stream **list);

/* The stream has ended: frees it, and its slot. */
void served_end_stream(struct stream *stream);

/* Has the process died, and have all its streams in this area ended? */
bool served_is_over(const struct served *s);

/* ---- the main thread ---- */

void served_add_up(struct served *s, struct served_sums *sums);

#endif
