/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * drain.h: the threads that empty the rings.
 *
 * A few threads serve all rings whose traces are on one file system; so a file system that does not
 * answer delays no others.  Each has a doorbell (protocol.h): a futex in a memfd that the recorded
 * processes map.  The producer of a ring that is filled past its watermark rings it.  A
 * thread looks at its rings every DRAIN_TICK_MS; but when all of them have been silent for a tick, it
 * sleeps until the doorbell rings.  A frame is written when there is enough for one, or about a
 * second after its first record.  Until then its records are in the ring, where they outlive the
 * program and the daemon, but not both.
 *
 * All functions are for the daemon's main thread.
 */
#ifndef LOGD_WRITER_DRAIN_H
#define LOGD_WRITER_DRAIN_H

#include <sys/types.h>

#include "logd/writer/served.h"

#define DRAIN_TICK_MS 50

struct drain;

struct drain_options {
	int threads; /* for each file system */
	int level;  /* of zstd; 0: no compression */
	bool plain; /* without io_uring */
};

/* event_fd (an eventfd) is written to when an area has ended.  0 or -errno. */
int drain_start(struct drain **d, const struct drain_options *o, int event_fd);

/*
 * Writes what is in the rings, but ends no stream; stops the threads and frees *d.  False: some are
 * stuck in a file system, and use their streams still; then *d is not freed.
 */
bool drain_stop(struct drain *d);

/*
 * The streams of a recording share one drain thread, and so one doorbell: drain_assign chooses
 * its number (or returns -errno) by the file system of the trace, and the process gets its memfd
 * (which stays the drain's).
 */
int drain_assign(struct drain *d, dev_t device);
int drain_doorbell_fd(const struct drain *d, int number);
/* A number that changes whenever that thread has written something. */
uint32_t drain_progress(const struct drain *d, int number);

/* Gives the area to that thread, until it has set `ended`. */
void drain_add(struct drain *d, int number, struct served *s);

/* The main thread has changed one of its areas (gone): the thread looks now. */
void drain_kick(struct drain *d, int number);

#endif
