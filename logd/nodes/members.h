/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * members.h: the processes of this node that take part in jobs, their queue pairs,
 * and the cells of their clock regions that other processes write to.
 *
 * A table in memory and nothing else: the directory (directory.h) fills it.  The daemon's main
 * thread only.
 */
#ifndef LOGD_NODES_MEMBERS_H
#define LOGD_NODES_MEMBERS_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/ring/protocol.h"
#include "logd/service/loop.h"

struct job;

/* A process that takes part in a job. */
struct member_process {
	struct source source; /* its pidfd; the directory's */
	struct member_process *next;
	struct job *job;
	uint8_t id[SR_PROCESS_ID_BYTES];
	int32_t rank;
	uint32_t member; /* its number in the group, or SR_OUTSIDER */
	uint64_t region; /* address of its clock region */
	struct queue_pair *queue_pairs;
	/* Cells of its region: a bit for each that has been given away. */
	uint64_t *taken;
	uint32_t taken_words, cells;
};

struct queue_pair {
	struct queue_pair *next;         /* of its bucket */
	struct queue_pair *next_of_same; /* of its process */
	struct member_process *process;
	struct sr_queue_pair is;
	uint32_t cell; /* SR_NO_CELL: it has none yet */
};

#define MEMBERS_BUCKETS 4096

/* Zeroed by its owner. */
struct members {
	struct member_process *processes;
	struct queue_pair *buckets[MEMBERS_BUCKETS];
};

/* Adds p, which was allocated by calloc(); member_remove frees it, with its queue pairs. */
void member_add(struct members *m, struct member_process *p);
void member_remove(struct members *m, struct member_process *p);

/* NULL: there is none. */
struct member_process *member_find(const struct members *m, const uint8_t *id);

/*
 * A queue pair of p.  Another one of the same address and number in the job, whose process
 * ended without saying so, is removed.  0, -EINVAL or -ENOMEM.
 */
int queue_pair_add(struct members *m, struct member_process *p, const struct sr_queue_pair *is);
void queue_pair_remove(struct members *m, struct queue_pair *q);

/* The queue pair with this number at this address, of any process of the job; or NULL. */
struct queue_pair *queue_pair_of_job(const struct members *m, const struct job *job,
				     const uint8_t *gid, uint32_t number);

/* That of this process, on any device (gid NULL) or on that with this address; or NULL. */
struct queue_pair *queue_pair_of_process(const struct members *m, const struct member_process *p,
					 uint32_t number, const uint8_t *gid);

/* Gives it the lowest free cell of its process.  True: it has a new one; false: none is needed or
 * there is no memory. */
bool queue_pair_take_cell(struct queue_pair *q);
/* Gives it this cell, which it had before the daemon was replaced. */
void queue_pair_restore_cell(struct queue_pair *q, uint64_t cell);

/* What a process that connects to it has to know. */
void queue_pair_describe(const struct queue_pair *q, struct sr_found *found);

#endif
