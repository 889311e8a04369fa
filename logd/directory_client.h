/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * directory_client.h: a process's questions to the directory (directory.h).
 *
 * Inside of programs, recorded or not: raw system calls only, no malloc.  Any
 * thread; one question at a time.  The connection is made when it is needed,
 * and anew when the daemon was replaced, for which a question waits as long as
 * for an answer.
 */
#ifndef LOGD_DIRECTORY_CLIENT_H
#define LOGD_DIRECTORY_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol.h"

struct sr_job {
	const char *name;     /* of a job on one node: the path of its trace */
	const char *key_path; /* NULL: on one node */
	const char *hosts;    /* or NULL */
	int32_t rank;
	uint32_t member; /* or SR_OUTSIDER */
	uint64_t region;
};

/* How long an answer may take: another node's daemon has less (NODE_PATIENCE_MS). */
#define SR_DIRECTORY_MS 4000

/* Caller provides the storage, zeroed; fields are private. */
struct sr_directory {
	_Atomic uint32_t lock;
	int socket; /* with open */
	int job_fd; /* memfd: the job's texts */
	bool joined, open;
	char path[108];
	struct sr_message join;
};

/* 0, or -errno and the daemon's sentence, if it had one, in error. */
int sr_directory_join(struct sr_directory *d, const char *socket_path, const struct sr_job *job,
		      char *error, size_t error_size);

int sr_directory_add(struct sr_directory *d, const struct sr_queue_pair *qp);
int sr_directory_remove(struct sr_directory *d, const struct sr_queue_pair *qp);

/* 0; -ENOENT: no process of the job has it; -ETIMEDOUT: nobody knows, and error says why. */
int sr_directory_find(struct sr_directory *d, const struct sr_find *find, struct sr_found *found,
		      char *error, size_t error_size);

/* In a child after fork: it is not the parent. */
void sr_directory_abandon(struct sr_directory *d);

#endif
