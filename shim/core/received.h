/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * received.h: the bytes that the completions of one poll prove to be in memory, and those of
 * requests that ended without success.
 *
 * One value passes from the call to its record: the wrapper of a polling call appends the
 * thread's value to the arguments, the poll lists the pieces (shim/verbs), the codec
 * encodes them, and the engine copies the long ones into the record.
 */
#ifndef SHIM_CORE_RECEIVED_H
#define SHIM_CORE_RECEIVED_H

#include <stdbool.h>
#include <stdint.h>

#include <sreplay/trace.h>

/*
 * Pieces of at least this many bytes are not encoded but copied from their place into the
 * ring, between what was encoded before and after. A record with such a piece is never kept
 * for comparison (SR_REPEAT_MAX).
 */
#define SR_GATHER_MIN 256

struct sr_received_piece {
	void *addr; /* where the bytes are */
	uint32_t length;
	uint32_t at; /* their offset in the record if they are gathered, else 0 */
	/*
	 * Recording: the bytes are not recorded, since their sender produces them again.  Replay: the record
	 * lacks them; `filled` of them have come from their sender so far.
	 */
	bool left_out;
	bool fetched; /* recording: by a READ; replay: as much of the checksum is there as READs have */
	bool exposed; /* it is in exposed memory, so that loads find it */
	uint64_t sum; /* replay, exposed: its checksum */
	uint32_t filled;
	uint64_t checksum, mask; /* replay: of the recorded ones (logd/trace/left_out.h) */
	int32_t sender;		 /* replay: the rank that they came from */
	uint64_t in_doubt;	 /* replay: peer's memory that several write to, of which a READ is not found out; or 0 */
};

struct sr_poller;

struct sr_received {
	struct sr_received_piece *pieces;
	uint32_t count, room;
	/*
	 * How many of the pieces, at the end, belong to requests that ended without success:
	 * nothing proves that their bytes came from the peer, but some may have.  In the record a
	 * piece without bytes stands before the first of them.
	 */
	uint32_t unproven;
	/* Recording, with --order (shim/verbs/picks.h), of all completions of the poll: */
	bool is_odd;        /* a replay cannot find out where it came into memory */
	bool lacks_queue;   /* the record does not say of which queue they are */
	uint64_t posted_at; /* the process's last event when the first request of its own was posted */
	uint64_t gathered;        /* bytes of the current record that were not encoded */
	/* The poll's first call of the device has been made already, and found so many. */
	bool is_polled;
	int polled;
	struct sr_poller *poller; /* this thread's entry in polls.h, once it has polled */
};

#endif
