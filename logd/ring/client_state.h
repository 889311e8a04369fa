/* SPDX-License-Identifier: BSD-2-Clause */
/* client_state.h: what a client (client.h) consists of.  Its fields are for its own modules. */
#ifndef LOGD_RING_CLIENT_STATE_H
#define LOGD_RING_CLIENT_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/ring/protocol.h"
#include "logd/ring/ring.h"

/* What a process says of itself.  The pointers need to be valid during sr_client_connect only. */
struct sr_hello {
	uint32_t version; /* SR_TRACE_VERSION */
	int32_t rank;
	uint32_t flags;        /* kept in process.json, without a meaning yet */
	uint64_t stack;        /* likewise */
	const char *trace_dir; /* absolute, or relative to the process's directory */
	const char *schema;    /* JSON text that describes the records of calls */
	size_t schema_size;
	const char *extra_json; /* a JSON object for process.json, or NULL */
	const uint8_t *session; /* SR_SESSION_BYTES, of its `sreplay record`; or NULL */
	bool late; /* the process ran before it was recorded */
	const struct sr_image_origin *image;  /* NULL: it is the first image of its rank */
	const struct sr_image_origin *parent; /* NULL: it was not forked by a recorded process */
	int connection; /* of the image before, for one that has become another user; 0: none */
};

/* Called from any thread, with the client's lock held. */
struct sr_client_hooks {
	/* Threads wait for the daemon, for a second already; what: a sentence about it. */
	void (*waits)(const char *what);
	/* Once, when the client gives up and all rings are stopped; error: an errno. */
	void (*gives_up)(int error);
};

struct sr_client_area;

#define SR_CLIENT_AREAS 256

enum sr_client_state {
	SR_CLIENT_NONE, /* zeroed: every function finds nothing to do */
	SR_CLIENT_LIVE,
	SR_CLIENT_GIVEN_UP, /* no daemon came in time, or it refused: the rings are stopped */
};

/* The caller provides the storage, zeroed. */
struct sr_client {
	_Atomic uint32_t lock; /* thread id of its holder */
	enum sr_client_state state;
	int socket;   /* -1: not connected */
	int hello_fd; /* memfd with the hello's texts, for each new daemon */
	int given;    /* the connection of the image before, until one is made; 0: none */
	struct sr_message hello;
	char path[108];
	struct sr_doorbell *doorbell;
	struct sr_client_area *areas[SR_CLIENT_AREAS];
	_Atomic uint32_t n_areas;
	_Atomic uint32_t n_rings; /* of live threads */
	int daemon; /* its process number; 0: not known */
	int64_t stall_timeout_ms;
	/* Times are ms of the monotonic clock. */
	int64_t next_try;  /* to reach a daemon */
	uint32_t progress; /* the daemon's (struct sr_doorbell), when it was seen last; ... */
	int64_t moved_at;  /* ... when that or a request was seen to get on ... */
	int64_t looked_at; /* ... and when a thread that waits looked last */
	int64_t deadline;  /* of the request under way; 0: none but the stall timeout */
	int64_t said_at;   /* when the user was told what is waited for; 0: never */
	bool has_tried;    /* a new connection, since then */
	const struct sr_client_hooks *hooks;
};

#endif
