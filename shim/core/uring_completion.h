/* SPDX-License-Identifier: BSD-2-Clause */
/* uring_completion.h: a completion of io_uring, as the trace has it (async/uring.h). */
#ifndef SHIM_CORE_URING_COMPLETION_H
#define SHIM_CORE_URING_COMPLETION_H

#include <stdint.h>

/* What else a completion means. */
enum sr_uring_effect {
	SR_URING_NOTHING,
	SR_URING_OPENED, /* its result is a new descriptor */
	SR_URING_CLOSED, /* the descriptor is closed */
	SR_URING_MOVED,  /* the descriptor's position has moved on by its result */
	SR_URING_CLOSED_SILENTLY, /* the same, and the program gets no completion */
	SR_URING_TAKEN,  /* another process has given it to the program, and taken it */
	SR_URING_PASSED, /* descriptors may have come with a message */
	SR_URING_COPIED, /* what it has written is in a content that the trace keeps */
	SR_URING_PERHAPS_COPIED, /* the same; nobody knows */
};

/* A completion of no request that this process has submitted to the ring: of a message, a tag, or another process's. */
#define SR_URING_FOREIGN UINT32_MAX

struct sr_uring_completion {
	int32_t ring;	 /* its descriptor */
	uint32_t request; /* the number of the ring's request, from 0 on, or SR_URING_FOREIGN */
	uint64_t user_data;
	int32_t result;
	uint32_t flags;
	uint8_t effect; /* enum sr_uring_effect */
	int32_t fd;     /* which descriptor it is about */
};

#endif
