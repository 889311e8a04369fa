/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * directory_client.h: a process's questions to the directory (directory.h).
 *
 * Inside of programs, recorded or not: raw system calls only, no malloc.  Any
 * thread; one question at a time.  The connection is made when it is needed,
 * and anew when the daemon was replaced, for which a question waits a while.
 */
#ifndef LOGD_RING_DIRECTORY_CLIENT_H
#define LOGD_RING_DIRECTORY_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/ring/protocol.h"

struct sr_job {
	const char *name;     /* of a job on one node: the path of its trace */
	const char *key_path; /* NULL: on one node */
	const char *hosts;    /* or NULL */
	int32_t rank;
	uint32_t member; /* or SR_OUTSIDER */
	uint64_t region;
};

/*
 * How long an answer may take.  To who joins, as long as to a process's first
 * words (client.c): the daemon hashes the libraries of all processes of a job
 * that start at once before it comes to the questions of the first of them.
 * Another node's daemon has less (NODE_KNOWN_STALL_TIMEOUT_MS).
 */
#define SR_DIRECTORY_JOIN_MS   60000
#define SR_DIRECTORY_MS        20000
/* From a daemon that has let that pass, until it has answered. */
#define SR_DIRECTORY_SILENT_MS 1000
/* How long the successor of a daemon that is gone may take. */
#define SR_DIRECTORY_GONE_MS   4000

/* Caller provides the storage, zeroed; fields are private. */
struct sr_directory {
	_Atomic uint32_t lock;
	int socket; /* with open */
	int job_fd; /* memfd: the job's texts; with told */
	bool told;  /* of the job: it has joined, or will with its next question */
	bool joined, open;
	bool silent;     /* the last question had no answer */
	int stall_timeout_ms; /* 0: as above */
	char path[108];
	struct sr_message join;
};

/*
 * 0, or -errno and the daemon's sentence, if it had one, in error.  No daemon is waited for
 * where there is none.
 */
int sr_directory_join(struct sr_directory *d, const char *socket_path, const struct sr_job *job,
		      char *error, size_t error_size);

/* That failed because no daemon answered: the next question tries again before it is put. */
bool sr_directory_joins_later(const struct sr_directory *d);

/* Change all of these waits; before it joins. */
void sr_directory_set_stall_timeout(struct sr_directory *d, int ms);

int sr_directory_add(struct sr_directory *d, const struct sr_queue_pair *qp);
int sr_directory_remove(struct sr_directory *d, const struct sr_queue_pair *qp);

/* 0; -ENOENT: no process of the job has it; -ETIMEDOUT: nobody knows, and error says why. */
int sr_directory_find(struct sr_directory *d, const struct sr_find *find, struct sr_found *found,
		      char *error, size_t error_size);

/* Ask no more.  In a child after fork, say: it is not the parent. */
void sr_directory_abandon(struct sr_directory *d);

#endif
