/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * received.h: the bytes that the completions of one poll prove to be in memory.
 *
 * One value, handed on from call to record: the wrapper of a call that polls passes
 * the thread's behind the arguments, the poll lists the pieces (shim/verbs), the codec
 * encodes them, and the engine puts the long ones into the record.
 */
#ifndef SHIM_CORE_RECEIVED_H
#define SHIM_CORE_RECEIVED_H

#include <stdint.h>

/*
 * Pieces of at least so many bytes are not encoded, but copied from where they lie
 * into the ring, between what was encoded before and after.  A record that has any is
 * never kept for comparison (SR_REPEAT_MAX).
 */
#define SR_GATHER_MIN 256

struct sr_received_piece {
	void *addr; /* where they lie */
	uint32_t length;
	uint32_t at; /* where in the record they go, if they are gathered; else 0 */
};

struct sr_poller;

struct sr_received {
	struct sr_received_piece *pieces;
	uint32_t count, room;
	uint64_t gathered; /* bytes of the record under way that were not encoded */
	struct sr_poller
	    *poller; /* the thread among those that poll (polls.h), once it has polled */
};

#endif
