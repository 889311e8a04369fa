/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * streams.h: the daemon's client, and the stream of each recorded thread.
 *
 * A thread's stream is opened at its first call. Call all functions inside a section (sr_enter).
 */
#ifndef SHIM_RECORD_STREAMS_H
#define SHIM_RECORD_STREAMS_H

#include "logd/base/compiler.h"
#include "logd/ring/client.h"
#include "shim/core/thread.h"

/* Set before the first thread's stream is opened. */
struct sr_recorder {
	struct sr_client client;
	int32_t rank;
	struct sr_image_origin image; /* zeros: the first one */
	bool is_child;                /* of a recorded process, which has forked it */
	size_t ring_bytes;
	bool lossy;
	bool quiet; /* does not say what is waited for */
	void (*ring_stopped)(int error); /* the daemon has stopped a ring */
};

extern struct sr_recorder sr_recorder SR_HIDDEN;

/* Opens the thread's stream, at its first call or record. */
void sr_record_start_thread(struct sr_thread *t);

/* The highest SN that a thread with a stream has. */
uint64_t sr_record_highest_sn(void);

/* Ends the thread's stream after its last call. */
void sr_record_end_thread(struct sr_thread *t);

/* In a forked child: this thread is the only one, and its stream has not begun. */
void sr_record_keep_only(struct sr_thread *t);

/* Calls f for each thread with a stream; none ends meanwhile. */
void sr_record_each_thread(void (*f)(struct sr_thread *t, void *argument), void *argument);

/* From here on no system call of these threads is trapped. */
void sr_record_disarm_threads(void);

/* The process ends: closes the rings. An open ring means that a kill cut it off. */
void sr_record_close_streams(void);

/* The lowest of the recorder's descriptors that is at least from, or -1. */
int sr_record_own_fd_from(int from);

/* Says whether the daemon could not write what this process still had in its rings. */
void sr_record_report_stopped(void);

#endif
