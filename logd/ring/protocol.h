/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol.h: the messages between a process and sreplay-logd.
 *
 * A SOCK_SEQPACKET UNIX socket.  Each packet is one struct sr_message, with one file descriptor
 * where the type says so.  The process sends requests, and the daemon answers them.  An answer with
 * the error -EINPROGRESS is none yet: it says that the daemon has got on with what the request
 * waits for.  Only processes of the daemon's user are served.
 */
#ifndef LOGD_RING_PROTOCOL_H
#define LOGD_RING_PROTOCOL_H

#include <stdatomic.h>
#include <stdint.h>

#define SR_PROTOCOL_MAGIC   0x736c6f67u /* "slog" */
/* Another one with each change here, and with each new record: a daemon decodes what it writes. */
#define SR_PROTOCOL_VERSION 15u
#define SR_PROCESS_ID_BYTES 16
#define SR_SESSION_BYTES    16

enum sr_message_type {
	/*
	 * A process introduces itself: rank, hello_flags, trace_version, value (the stack),
	 * process, session; fd: memfd with a struct sr_hello_body.  With SR_MESSAGE_RESUME: an
	 * earlier daemon knew it by the same `process`.  With SR_MESSAGE_IMAGE or
	 * SR_MESSAGE_CHILD: text: a struct sr_image_origin.  Answer: fd: a memfd page whose first word is the doorbell.
	 */
	SR_MSG_HELLO = 1,
	/*
	 * An area for rings of this process (area.h): thread (its number, from 0), value (bytes of a
	 * ring).  Answer: fd: the area's memfd.  With SR_MESSAGE_RESUME, fd is the memfd of an area
	 * that the process has, and the answer has none.
	 */
	SR_MSG_AREA = 2,
	/* Needs no hello.  Answer: fd: memfd with the report, a text. */
	SR_MSG_STATUS = 4,
	/*
	 * Needs no hello; text: a struct sr_trace_identity; session.  Answered when no process of
	 * that session writes to the trace any more; without a session, no process at all.  Answer:
	 * rank: how many processes of that session have ended, thread: how many of these came with
	 * SR_MESSAGE_LATE, value: bytes that they recorded, hello_flags: processes that they started
	 * and that are not in their recordings.
	 */
	SR_MSG_WAIT_TRACE = 5,
	/*
	 * A regular file that the process is about to read; fd: the file, open in any mode; text:
	 * its path as the process sees it ("": the daemon looks for it); value: the number of the
	 * note, by which records of opens refer to it.  SR_MESSAGE_KEEP: its content becomes part
	 * of the trace.
	 */
	SR_MSG_FILE = 6,

	/*
	 * Needs no hello.  Answer: fd: a memfd of `value` bytes, for texts of a process that may not
	 * make a file of that size itself.
	 */
	SR_MSG_MEMORY = 7,

	/* Answered when the small files of which records have told are held open. */
	SR_MSG_HELD = 8,

	/* The directory (logd/nodes/directory.h) needs no hello either, but a join first. */

	/*
	 * A process takes part in a job: process, rank, thread (its number in the group, or
	 * SR_OUTSIDER), value (address of its clock region); fd: memfd with a struct sr_job_body.
	 * With SR_MESSAGE_CHILD it is a child of one, and the answer's thread is the number that it
	 * gets; thread: the one that it has already, or SR_OUTSIDER.  -ENOSPC: there is none for it.
	 */
	SR_MSG_JOIN = 16,
	/* The process has this queue pair; text: a struct sr_queue_pair.  Answered when the
	 * directory has it. */
	SR_MSG_QP_ADD = 17,
	/* It has no longer. */
	SR_MSG_QP_REMOVE = 18,
	/*
	 * Which process has a queue pair?  text: a struct sr_find.  Answer: text: a struct
	 * sr_found. -ENOENT: no process that a daemon of the job knows; -ETIMEDOUT: another node's
	 * daemon does not answer, text says which.
	 */
	SR_MSG_QP_FIND = 19,
};

#define SR_MESSAGE_RESUME 1u
#define SR_MESSAGE_KEEP   2u
#define SR_MESSAGE_IMAGE  4u
#define SR_MESSAGE_CHILD  8u
#define SR_MESSAGE_LATE   16u /* in a hello: the process ran before it was recorded */

struct sr_message {
	uint32_t magic;
	uint16_t version;
	uint16_t type;
	int32_t error;     /* in answers: 0, or -errno and text says why */
	uint32_t sequence; /* an answer has its request's, so that late answers are recognized */
	uint32_t thread;
	int32_t rank;
	uint32_t flags; /* SR_MESSAGE_* */
	uint32_t hello_flags;
	uint32_t trace_version;
	uint64_t value;
	uint8_t process[SR_PROCESS_ID_BYTES]; /* drawn at random, for the life of a client */
	/* The `sreplay record` under which a process runs, drawn at random; zeros: none. */
	uint8_t session[SR_SESSION_BYTES];
	char text[320];
};

/*
 * The doorbell's page, which the daemon's drain thread shares with all processes that it serves.
 * The producer of a ring that is filled past its watermark rings the bell (a futex).
 */
struct sr_doorbell {
	_Atomic uint32_t bell;
	/* Counts what the thread has written: as long as it grows, waiting for room makes sense. */
	_Alignas(64) _Atomic uint32_t progress;
	_Atomic uint32_t in_file_system; /* 1: a call on the traces' file system is under way */
};

/* Which directory a trace is, whatever its name. */
struct sr_trace_identity {
	uint64_t device, inode;
};

/*
 * SR_MESSAGE_IMAGE: the process has executed a program: it is the next image of a rank that is recorded
 * already.  The recording of the image before it has ended with that.  SR_MESSAGE_CHILD: a recorded
 * process has forked this one, whose recording is a trace of its own within that process's.
 */
struct sr_image_origin {
	uint8_t before[SR_PROCESS_ID_BYTES]; /* the `process` of the image before, or of the parent */
	uint32_t number;                     /* of this image, or of its parent's children, from 1 */
	uint32_t thread;                     /* CHILD: that has forked it; IMAGE: 0 */
	uint64_t sns; /* the SNs of its threads go on after this one; CHILD: that of the fork */
};

/* What a process has read of itself in /proc (own_facts.h). */
enum sr_fact {
	SR_FACT_EXECUTABLE,  /* its path */
	SR_FACT_DIRECTORY,   /* the path of the current one */
	SR_FACT_ENVIRONMENT, /* as environ(5) has it */
	SR_FACT_MAPS,
	SR_FACT_MOUNTS, /* mountinfo */
	SR_FACTS
};

/* In HELLO's memfd, followed by the texts in this order, not 0-terminated. */
struct sr_hello_body {
	uint32_t trace_dir_size;
	uint32_t schema_size;
	uint32_t extra_size;
	uint32_t fact_sizes[SR_FACTS]; /* 0: the daemon reads it itself */
	uint32_t reserved;
};

/* ---- the directory ---- */

#define SR_OUTSIDER  UINT32_MAX
#define SR_GID_BYTES 16
#define SR_GIDS      16
#define SR_NO_CELL   UINT32_MAX
#define SR_JOB_MAX   (64u << 10)

/* In JOIN's memfd, followed by three texts: the job's name, the path of its key, its hosts. */
struct sr_job_body {
	uint32_t name_size;
	uint32_t key_path_size; /* 0: a job on one node */
	uint32_t hosts_size;    /* addresses between commas */
	uint32_t reserved;
};

/* In a number: it is that of a shared receive queue of XRC, not of a queue pair. */
#define SR_SHARED_QUEUE (1u << 31)

/* gid: all addresses of its device, LIDs in the form of GIDs. */
struct sr_queue_pair {
	uint32_t number;
	uint32_t rkey;  /* of the process's clock region in its protection domain */
	uint32_t reads; /* how many READs and atomics at once its device takes from one peer */
	uint32_t gids;
	uint64_t domain; /* XRC target or shared queue: which XRC domain of the process; else 0 */
	uint8_t gid[SR_GIDS][SR_GID_BYTES];
};

struct sr_find {
	uint32_t own_number; /* with own_gid: the asker's queue pair that is to be connected */
	uint32_t number;
	uint8_t own_gid[SR_GID_BYTES];
	uint8_t gid[SR_GID_BYTES];
};

struct sr_found {
	int32_t rank;
	uint32_t member; /* or SR_OUTSIDER */
	uint64_t region; /* address of its clock region */
	uint32_t rkey;
	uint32_t cell;         /* in that region, for this queue pair; outsiders: SR_NO_CELL */
	uint32_t cells;        /* in use in that region */
	uint32_t own_cell;     /* in the asker's region, if the process found is a member */
	uint32_t reads;        /* as in struct sr_queue_pair */
	uint32_t shared_queue; /* XRC target: the one that reaches its region; or 0 */
};

#define SR_HELLO_MAX_TEXT (64u << 20)

#endif
