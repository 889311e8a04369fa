/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drain.h: the threads that empty the rings.
 *
 * Few of them, for any number of rings.  Each has a doorbell, a futex in a
 * memfd that the recorded processes map: a ring that fills past its watermark
 * rings it.  A thread whose rings have been silent for a while sleeps until one
 * rings; else it looks at least every DRAIN_TICK_MS, which bounds the time
 * until a record can be read in the file.
 */
#ifndef LOGD_WRITER_DRAIN_H
#define LOGD_WRITER_DRAIN_H

#include "logd/writer/stream.h"

#define DRAIN_TICK_MS 50

struct drain;

struct drain_options {
	int threads;
	int level;  /* zstd's; 0 = none */
	bool plain; /* no io_uring */
};

/* event_fd is written to when a stream has reached what was asked of it. -errno. */
int drain_start(struct drain **d, const struct drain_options *o, int event_fd);

/* Write what is in the rings, end nothing, stop the threads, free all. */
void drain_stop(struct drain *d);

/*
 * All streams of a recording use one doorbell: its number is drawn by
 * drain_assign, its memfd is what the client gets.
 */
int drain_assign(struct drain *d);
int drain_doorbell_fd(const struct drain *d, int number);

void drain_add(struct drain *d, int number, struct stream *s);

/* Something was asked of one of its streams (flush_to, gone): look now. */
void drain_kick(struct drain *d, int number);

#endif
