/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * protocol.h: what a recorded process and sreplay-logd say to each other.
 *
 * A SOCK_SEQPACKET UNIX socket; each packet is one struct sr_message, with one
 * file descriptor where the type says so.  The client asks, the daemon answers
 * each request once, in order; it never speaks first.
 */
#ifndef LOGD_PROTOCOL_H
#define LOGD_PROTOCOL_H

#include <stdint.h>

#define SR_PROTOCOL_MAGIC   0x736c6f67u /* "slog" */
#define SR_PROTOCOL_VERSION 2u
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
};

#define SR_MESSAGE_RESUME 1u

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

#define SR_HELLO_MAX_TEXT (64u << 20)

#endif
