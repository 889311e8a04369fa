/* SPDX-License-Identifier: BSD-2-Clause */
/* harness.h: a private daemon for a test, in a private directory. */
#ifndef TESTS_LOGD_HARNESS_H
#define TESTS_LOGD_HARNESS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "logd/ring/client.h"
#include "logd/trace/reader.h"

struct harness {
	char dir[64];     /* in /tmp; removed by harness_end */
	char socket[128]; /* the daemon's */
	char trace[128];  /* DIR/t.srec */
	pid_t daemon;     /* a child of the test */
};

void harness_begin(struct harness *h);
void harness_end(struct harness *h);

/* Starts sreplay-logd with these options in addition to the socket; returns when it listens. */
void daemon_start(struct harness *h, const char *const *options);
/* Kills the daemon, waits for its end and returns its exit status. */
int daemon_kill(struct harness *h, int signal);

/* Connects as a rank of the harness's trace. 0 or -errno; error gets the message. */
int connect_as(struct harness *h, struct sr_client *c, int32_t rank, char *error, size_t size);

/* The same as a process of a session. */
int connect_in(struct harness *h, struct sr_client *c, int32_t rank, const uint8_t *session,
	       char *error, size_t size);

/* What a stream contains. */
struct stream_check {
	uint64_t records; /* of the pattern, in order from 0 */
	bool exit;        /* ends with SR_REC_EXIT */
	uint32_t mark;    /* reason of the last mark; 0: none */
	uint64_t mark_argument;
	char warning[600];
};

/*
 * Reads a rank's thread to its end. False, with a message on stderr, if the stream is
 * damaged or is not the pattern.
 */
bool check_stream(const char *trace, int32_t rank, uint32_t thread, uint64_t seed,
		  struct stream_check *found);

/* Waits until nobody writes to the trace any more. */
void wait_written(struct harness *h);

void sleep_us(unsigned int us);

#endif
