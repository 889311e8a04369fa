/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * job.h: the jobs that have processes on this node.
 *
 * A job with a key may have processes on other nodes; one without a key is on
 * this node alone, and its name tells it from others.
 *
 * The daemon's main thread only.
 */
#ifndef LOGD_NODES_JOB_H
#define LOGD_NODES_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/nodes/secret.h"

struct job {
	struct job *next;
	uint8_t id[SECRET_ID_BYTES]; /* public */
	uint8_t key[SECRET_KEY_BYTES];
	bool has_key;
	char *hosts; /* addresses between commas; may be empty */
	/* Of its numbers for clocks ranks have had the first ones, and children the last ones. */
	uint32_t ranks, children;
};

/* Zeroed by its owner. */
struct jobs {
	struct job *first;
};

/*
 * The job that a struct sr_job_body with its texts describes, made for its first process.
 * 0, or -errno and, where there is more to say, a sentence.
 */
int job_join(struct jobs *jobs, const void *body, size_t size, struct job **job, char *error,
	     size_t error_size);

/* NULL: no job has this id. */
struct job *job_find(const struct jobs *jobs, const uint8_t *id);

/* Has one of them a key, and so perhaps processes on other nodes? */
bool jobs_have_key(const struct jobs *jobs);

/* Frees them all and clears their keys. */
void jobs_free(struct jobs *jobs);

#endif
