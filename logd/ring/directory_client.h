/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * directory_client.h: a process's questions to the directory of its job (logd/nodes/directory.h).
 *
 * It runs inside programs, recorded or not: raw system calls only, no allocation.  Any thread may
 * call it; one question is asked at a time.  The connection is made when it is needed, and anew
 * when the daemon was replaced.  Functions return 0 or -errno.
 */
#ifndef LOGD_RING_DIRECTORY_CLIENT_H
#define LOGD_RING_DIRECTORY_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/ring/protocol.h"

struct sr_job {
	const char *name;     /* without a key: the path of the trace */
	const char *key_path; /* NULL: all processes of the job are on this node */
	const char *hosts;    /* addresses between commas; or NULL */
	int32_t rank;
	uint32_t member; /* number in the group, or SR_OUTSIDER */
	bool is_child;   /* ... of a process that has one: the daemon chooses its number */
	uint64_t region; /* address of the process's clock region */
};

/*
 * How long an answer may take.  Joining has as long as the hello (client.h): where many processes
 * start at once, the daemon first hashes the libraries of all of them.  Another node's daemon has
 * less (NODE_KNOWN_STALL_TIMEOUT_MS).
 */
#define SR_DIRECTORY_JOIN_MS   60000
#define SR_DIRECTORY_MS        20000
/* After a question that was not answered at all, until one is. */
#define SR_DIRECTORY_SILENT_MS 1000
/* How long the successor of a daemon that is gone may take. */
#define SR_DIRECTORY_GONE_MS   4000

/* The caller provides the storage, zeroed.  The fields are private. */
struct sr_directory {
	_Atomic uint32_t lock;
	int socket;      /* if open */
	int job_fd;      /* memfd with the job's texts, if `takes_part` */
	bool takes_part; /* it has joined, or joins with its next question */
	bool joined, open;
	bool silent;          /* the last question was not answered */
	int stall_timeout_ms; /* 0: the times above */
	char path[108];
	struct sr_message join;
};

/* Joins the job.  Does not wait for a daemon.  error: the daemon's sentence, or "". */
int sr_directory_join(struct sr_directory *d, const char *socket_path, const struct sr_job *job,
		      char *error, size_t error_size);

/* Its number in the group, once it has joined. */
uint32_t sr_directory_member(const struct sr_directory *d);

/* Did joining fail because no daemon answered?  Then the next question tries it again. */
bool sr_directory_joins_later(const struct sr_directory *d);

/* Replaces all of the times above; before sr_directory_join. */
void sr_directory_set_stall_timeout(struct sr_directory *d, int ms);

/* Reports that the process has a queue pair, or has destroyed it. */
int sr_directory_add(struct sr_directory *d, const struct sr_queue_pair *qp);
int sr_directory_remove(struct sr_directory *d, const struct sr_queue_pair *qp);

/* -ENOENT: no process of the job has it; -ETIMEDOUT: no daemon knows, and error says why. */
int sr_directory_find(struct sr_directory *d, const struct sr_find *find, struct sr_found *found,
		      char *error, size_t error_size);

/* Drops the connection and zeroes *d: in a child after fork, which is another process. */
void sr_directory_abandon(struct sr_directory *d);

#endif
