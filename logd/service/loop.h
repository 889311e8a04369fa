/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * loop.h: the daemon's event loop: which descriptors it watches, and whom it calls.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_SERVICE_LOOP_H
#define LOGD_SERVICE_LOOP_H

#include <stdbool.h>

struct loop {
	int fd; /* epoll */
};

/* A watched descriptor.  Its owner keeps it where it is until loop_unwatch. */
struct source {
	void (*ready)(void *owner, struct source *source);
	void *owner;
	int fd;
};

/* 0 or -errno. */
int loop_open(struct loop *l);

/* Calls ready() whenever there is something to read.  0 or -errno. */
int loop_watch(struct loop *l, struct source *source);
/* Of a watched source: also while it can be written to. */
void loop_watch_writes(struct loop *l, struct source *source, bool writes);
void loop_unwatch(struct loop *l, struct source *source);

/* Waits up to timeout_ms (-1: no limit) and serves one source: serving it may free others. */
void loop_step(struct loop *l, int timeout_ms);

#endif
