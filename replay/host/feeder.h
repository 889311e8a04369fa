/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * feeder.h: sends a recorded thread's stream to the replayed thread.  A thread of `sreplay replay`
 * reads the trace and produces into a ring.
 */
#ifndef REPLAY_HOST_FEEDER_H
#define REPLAY_HOST_FEEDER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "logd/trace/reader.h"
#include "logd/ring/ring.h"
#include "replay/abi/control.h"
#include "replay/host/orders.h"

/* A stream up to where the thread forks. */
struct sr_feeder_part {
	struct sr_stream *stream;
	uint32_t until; /* the child's number; 0: the stream is sent to its end */
};

struct sr_feeder {
	struct sr_feeder_part part[SR_REPLAY_FORKS + 1]; /* of the same thread, in this order */
	size_t parts, at; /* at: the one that is sent */
	bool is_parents;  /* it ends where its process, a parent of the replayed one, forks */
	struct sr_ring ring;
	struct sr_orders *orders; /* records to insert before its calls; NULL: none */
	pthread_t thread;
	bool running;
	_Atomic uint64_t read; /* as far as the stream is sent, in bytes of its file */
	/* Valid after sr_feeder_stop, and once all is sent. */
	_Atomic bool all_sent;
	uint64_t quiet_ms; /* before it was killed, the process went on without a record */
	bool writing; /* it ended in a call that writes */
	uint64_t calls;    /* in the stream, as far as it was read */
	bool executed;     /* the stream ends with an exec that was made */
	bool killed;       /* the stream ends where the process was killed */
	bool cut;          /* ... before that, or before the program's end */
	char warning[512]; /* why the stream ended early, for the verdict */
};

/* The file with the feeders' rings (logd/ring/ring.h). */
struct sr_feeder_rings {
	int fd;
	uint64_t ring_bytes;
};

/* Opens the stream, and begins the ring at this place of the file; -errno and a sentence in err. */
int sr_feeder_open(struct sr_feeder *f, struct sr_trace *t, int32_t rank, uint32_t thread,
		   const struct sr_feeder_rings *rings, size_t place, struct sr_error *err);
int sr_feeder_start(struct sr_feeder *f);

/*
 * The thread goes on in this trace, that of the child with this number.  If the trace has no such stream,
 * the child was killed before its first call.
 */
int sr_feeder_add(struct sr_feeder *f, struct sr_trace *t, int32_t rank, uint32_t thread,
		  uint32_t child, struct sr_error *err);

/* The replayed process is gone: ends the thread, frees everything. */
void sr_feeder_stop(struct sr_feeder *f);

#endif
