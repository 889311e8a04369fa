/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol.h: what a recorded process and sreplay-logd say to each other.
 *
 * A SOCK_SEQPACKET UNIX socket; each packet is one struct sr_message, with one
 * file descriptor where the type says so.  The client asks, the daemon answers
 * each request once, in order; it never speaks first.
 */
#ifndef LOGD_RING_PROTOCOL_H
#define LOGD_RING_PROTOCOL_H

#include <stdint.h>

#define SR_PROTOCOL_MAGIC   0x736c6f67u /* "slog" */
#define SR_PROTOCOL_VERSION 4u
#define SR_PROCESS_ID_BYTES 16
#define SR_SESSION_BYTES    16

enum sr_message_type {
	/*
	 * A process introduces itself: rank, flags, stack in value, process;
	 * fd: memfd with a struct sr_hello_body.  With SR_MESSAGE_RESUME: it
	 * was known to an earlier daemon under the same process id.
	 * Answer: fd: memfd page whose first word is the doorbell.
	 */
	SR_MSG_HELLO = 1,
	/* A ring of this process: thread; fd: the ring's memfd.  With SR_MESSAGE_RESUME as above.
	 */
	SR_MSG_RING = 2,
	/* Answer when all that was committed before is written. */
	SR_MSG_FINISH = 3,
	/* Anyone of this user.  Answer: fd: memfd with the report, a text. */
	SR_MSG_STATUS = 4,
	/*
	 * Anyone of this user; fd: memfd with the path of a trace directory.
	 * Answer when no stream of that trace is being written any more by a
	 * process of the session; of no session: by any process.
	 */
	SR_MSG_WAIT_TRACE = 5,
	/*
	 * A regular file that the process is about to read; fd: it, open in any
	 * way; text: the path as the process sees it ("": the daemon finds one).
	 * With SR_MESSAGE_KEEP its content becomes part of the trace.
	 */
	SR_MSG_FILE = 6,
	/*
	 * The directory (directory.h): a process takes part in a job: process,
	 * rank, thread (its number in the group, or SR_OUTSIDER), value (the
	 * address of its clock region); fd: memfd with a struct sr_job_body.
	 */
	SR_MSG_JOIN = 16,
	/* A queue pair of this process; text: a struct sr_queue_pair.  No answer before it is
	   known. */
	SR_MSG_QP_ADD = 17,
	SR_MSG_QP_REMOVE = 18,
	/*
	 * Whose is a queue pair?  text: a struct sr_find.  Answer: text: a struct
	 * sr_found.  Errors: -ENOENT nobody's that a daemon of the job knows,
	 * -ETIMEDOUT another node's daemon is silent; text says which.
	 */
	SR_MSG_QP_FIND = 19,
};

#define SR_MESSAGE_RESUME 1u
#define SR_MESSAGE_KEEP   2u

struct sr_message {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	int32_t error;     /* in answers: 0, or -errno and text says why */
	uint32_t sequence; /* an answer has its request's: one that comes too late is known */
	uint32_t thread;
	int32_t rank;
	uint32_t flags; /* SR_MESSAGE_* */
	uint32_t hello_flags;
	uint32_t trace_version;
	uint64_t value;
	uint8_t process[SR_PROCESS_ID_BYTES]; /* drawn at random by the client, for its lifetime */
	/* The `sreplay record` under which a process runs, drawn at random; zeros: none. */
	uint8_t session[SR_SESSION_BYTES];
	char text[320];
};

/* Followed by the three texts, not 0-terminated. */
struct sr_hello_body {
	uint32_t trace_dir_size;
	uint32_t schema_size;
	uint32_t extra_size;
	uint32_t reserved;
};

/* ---- the directory ---- */

#define SR_OUTSIDER  UINT32_MAX
#define SR_GID_BYTES 16
#define SR_GIDS      16
#define SR_NO_CELL   UINT32_MAX
#define SR_JOB_MAX   (64u << 10)

/* Followed by three texts: what the job is called, the path of its key, its hosts. */
struct sr_job_body {
	uint32_t name_size;
	uint32_t key_path_size; /* 0: a job on one node */
	uint32_t hosts_size;    /* addresses between commas, where GIDs are none */
	uint32_t reserved;
};

/* In the number of what is no queue pair, but a shared receive queue of XRC. */
#define SR_SHARED_QUEUE (1u << 31)

/* A queue pair has every address of its device: GIDs, and LIDs made into GIDs. */
struct sr_queue_pair {
	uint32_t number;
	uint32_t rkey;  /* of the process's clock region in its protection domain */
	uint32_t reads; /* READs and atomics at a time that its device takes of one peer */
	uint32_t gids;
	uint64_t domain; /* of a target or a shared queue of XRC: which of the process's; or 0 */
	uint8_t gid[SR_GIDS][SR_GID_BYTES];
};

struct sr_find {
	uint32_t own_number; /* with one of its addresses: the queue pair that is to be connected */
	uint32_t number;
	uint8_t own_gid[SR_GID_BYTES];
	uint8_t gid[SR_GID_BYTES];
};

struct sr_found {
	int32_t rank;
	uint32_t member; /* or SR_OUTSIDER */
	uint64_t region; /* address of its clock region */
	uint32_t rkey;
	uint32_t cell;     /* in that region, for this queue pair; SR_NO_CELL for outsiders */
	uint32_t cells;    /* in use in that region */
	uint32_t own_cell; /* in the asker's region, if the other one is a member */
	uint32_t reads;    /* as its queue pair has it */
	uint32_t shared_queue; /* of a target of XRC: by which one its region can be reached; or 0 */
};

#define SR_HELLO_MAX_TEXT (64u << 20)

#endif
