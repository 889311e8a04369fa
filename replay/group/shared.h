/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared.h: what the processes of a group share while they are replayed together:
 * one memory file, made by `sreplay replay`, mapped by each replayed process and
 * by the process that feeds it.
 *
 * Who has come how far, and what is under way between them.  None of it decides
 * what a program sees (that is its trace); it decides when its calls return, and
 * what the report says.  Everything is written by the shim's or the command's
 * code; the replayed programs do not know of it.
 */
#ifndef REPLAY_GROUP_SHARED_H
#define REPLAY_GROUP_SHARED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "replay/control.h"

#define SR_GROUP_MAGIC    0x70756f7267727273ull
#define SR_GROUP_MEMBERS  256
#define SR_GROUP_CHANNELS 16384 /* a power of two */

enum sr_group_transport {
	SR_GROUP_NONE, /* each rank alone, from its trace */
	SR_GROUP_SHM,  /* bytes move through this file */
	SR_GROUP_RXE,  /* ... through queue pairs of the replay's own */
};

enum sr_group_state {
	SR_GROUP_STARTS,
	SR_GROUP_RUNS,
	SR_GROUP_ENDED,
};

/* In the order of their ranks; a member's number is its place. */
struct sr_group_member {
	int32_t rank;
	_Atomic uint32_t state;    /* enum sr_group_state */
	_Atomic uint32_t word;     /* futex: raised when somebody sleeps and it has moved */
	_Atomic uint32_t sleepers; /* of all processes, who wait for it */
	_Atomic int32_t process;   /* its id, while it runs */
	/* By thread: the SN whose call it has entered, with what that call posts. */
	_Atomic uint64_t entered[SR_REPLAY_THREADS];
};

/*
 * A connection in one direction.  Messages are numbered in the order of their
 * posts, which is that of their receives.  Found by its key, entered by whichever
 * side comes first.
 */
struct sr_group_key {
	int32_t from, to; /* members */
	uint32_t from_qp, to_qp; /* numbers, as recorded */
	uint32_t generation;     /* how often these two were connected before */
	uint32_t reserved;
};

struct sr_group_channel {
	_Atomic uint32_t state; /* 0: free; 1: being entered; 2: in use */
	struct sr_group_key key;
	_Atomic uint64_t posted; /* messages whose bytes and description are in the file */
	uint64_t bytes;          /* where the next payload goes; the sender's */
	uint64_t freed;          /* the receiver's: up to here given back to the system */
};

/* A message: 64 bytes in the file, at the channel's place + 64 * number. */
struct sr_group_message {
	uint64_t sn; /* of the post */
	uint64_t at; /* where the payload is, from the channel's place on */
	uint32_t thread;
	uint32_t request; /* which of the post's */
	uint32_t length;
	uint32_t opcode; /* enum ibv_wr_opcode */
	uint32_t imm_data;
	uint32_t reserved[7];
};

_Static_assert(sizeof(struct sr_group_message) == 64, "messages are found by their number");

struct sr_group {
	uint64_t magic;
	uint64_t size;      /* of this struct with its members: what is mapped */
	uint32_t members;   /* how many there are */
	uint32_t transport; /* enum sr_group_transport */
	struct sr_group_channel channel[SR_GROUP_CHANNELS];
	struct sr_group_member member[];
};

/* Behind what is mapped; a sparse file, of which only what is under way takes memory. */
static inline uint64_t sr_group_messages_at(uint32_t channel)
{
	return (1ull << 50) + ((uint64_t)channel << 36);
}

static inline uint64_t sr_group_payload_at(uint32_t channel)
{
	return (1ull << 60) + ((uint64_t)channel << 44);
}

/* What a member's process has to know of a peer: the payload of SR_REC_REPLAY_PEER. */
struct sr_group_peer {
	uint64_t qp; /* address of the struct ibv_qp, of this member's */
	uint32_t qp_num, peer_qp_num;
	int32_t peer; /* member */
	uint32_t reserved;
};

/* What its call must wait for: the payload of SR_REC_REPLAY_WAIT. */
struct sr_group_wait {
	int32_t member;
	uint32_t thread;
	uint64_t sn;
};

#endif
