/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.h: what the processes of a group share while they are replayed together:
 * one memory file, made by `sreplay replay`, mapped by each replayed process and
 * by the process that feeds it.
 *
 * Who has come how far, and what is under way between them.  None of it decides
 * what a program sees (that is its trace); it decides when its calls return, and
 * what the report says.  Everything is written by the shim's or the command's
 * code; the replayed programs do not know of it.
 */
#ifndef REPLAY_ABI_GROUP_H
#define REPLAY_ABI_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/abi/control.h"

#define SR_GROUP_MAGIC    0x70756f7267727273ull
#define SR_GROUP_MEMBERS  256
#define SR_GROUP_CHANNELS 16384 /* a power of two */
#define SR_GROUP_REGIONS  1024

/* What is remembered of writes into each member's memory; the oldest are forgotten. */
#define SR_GROUP_WRITES   (1ull << 24)
#define SR_GROUP_WRITTEN  (1ull << 32)

/* A write, and a look, is within one of these. */

enum sr_group_transport {
	SR_GROUP_NONE, /* each rank alone, from its trace */
	SR_GROUP_SHM,  /* bytes move through this file */
	SR_GROUP_RXE,  /* ... through queue pairs of the replay's own: see proxy.h */
	SR_GROUP_BEST, /* to be chosen: rxe where there is a device for it, else shm */
};

enum sr_group_state {
	SR_GROUP_STARTS,
	SR_GROUP_RUNS,
	SR_GROUP_LINGERS, /* has made its last call; others may still READ from its memory */
	SR_GROUP_ENDED,
};

/* Memory that peers write, of which all that its own process puts there is in the history. */
struct sr_group_region {
	uint64_t addr, length;
};

/*
 * Where in the file bytes are put, one behind the other: at base + at, going around in
 * the room.
 */
struct sr_group_place {
	uint64_t base, at, room;
};

/* Of the next n bytes, as many as go there in one piece, and where: it has them then. */
static inline size_t sr_group_place_take(struct sr_group_place *to, size_t n, uint64_t *at)
{
	uint64_t in_room = to->at % to->room;
	size_t part = n < to->room - in_room ? n : to->room - in_room;

	*at = to->base + in_room;
	to->at += part;
	return part;
}

#define SR_GROUP_WORK_ITEMS 64u         /* of a member, under way at a time; a power of two */
#define SR_GROUP_SOURCE  (64u << 10) /* bytes that go out with them */
#define SR_WORK_ITEM_FAR    UINT32_MAX  /* more than that lie at sr_group_source_at() */

/* A request that a member's process wants done by a device.  What has arrived is put to its place.
 */
struct sr_work_item {
	uint64_t stamp; /* of the requests of all members: those of lower ones are done before it */
	struct sr_group_call call;
	uint32_t channel; /* the connection: that of this member's direction */
	uint32_t opcode;  /* enum ibv_wr_opcode */
	uint32_t length;
	uint32_t source; /* where what goes out begins in sr_work_items.source; SR_WORK_ITEM_FAR */
	uint32_t imm_data;
	uint32_t reserved;
	uint64_t remote_addr; /* in the peer's memory, as recorded */
	uint64_t compare_add, swap;
	uint64_t result;  /* an atomic's: what the memory holds then, as recorded */
	uint64_t arrives; /* of the channel's messages, so many have arrived then; 0: it is none */
	struct sr_group_place to; /* room 0: what arrives is not wanted */
};

/*
 * A member's, in the order of its requests.  Its process does not wait for each: who needs
 * what one brings waits for that (transfer.c), and all are done when the member has ended.
 */
struct sr_work_items {
	_Atomic uint64_t asked;  /* so many; the process's */
	_Atomic uint64_t done;   /* ... of them; the proxy's */
	_Atomic uint32_t failed; /* the one behind these could not be done: why is in the text */
	_Atomic uint32_t waits;  /* the process sleeps until a message has arrived, */
	_Atomic uint64_t wanted; /* ... or so many of these are done; 0: it does not */
	_Atomic uint32_t word;   /* futex: raised when it has, or they are */
	char text[128];
	uint32_t source_at; /* so many bytes of the source are taken */
	struct sr_work_item work_item[SR_GROUP_WORK_ITEMS];
	uint8_t source[SR_GROUP_SOURCE];
};

enum sr_proxy_state {
	SR_PROXY_NONE,
	SR_PROXY_READY,
	SR_PROXY_FAILED, /* ... to start, or has ended */
};

enum sr_transfer_kind {
	SR_TRANSFER_WRITE,
	SR_TRANSFER_SEND,
	SR_TRANSFER_READ,
	SR_TRANSFER_ATOMIC,
	SR_TRANSFER_KINDS,
};

/* The process that has the device: proxy.h. */
struct sr_group_proxy {
	_Atomic uint32_t state; /* enum sr_proxy_state; a futex */
	_Atomic uint32_t word;  /* futex: raised to wake it */
	_Atomic uint32_t sleeping;
	_Atomic int32_t process;
	_Atomic uint64_t stamps; /* the last errand's */
	_Atomic uint64_t steps;  /* raised with each piece that the device has done */
	uint64_t requests[SR_TRANSFER_KINDS], bytes; /* done */
	_Atomic uint64_t others; /* requests of queue pairs that are not RC: through the file */
	char text[192];          /* which device it has; or why it has none */
};

/*
 * In the order of their ranks; a member's number is its place.  The first thing a
 * member does at a call is to say that it has entered it; at a post, once what it
 * posts can be found.
 */
struct sr_group_member {
	int32_t rank;
	_Atomic uint32_t state; /* enum sr_group_state */
	_Atomic uint32_t
	    whole;             /* it has come to the end of its program: all its writes are known */
	_Atomic uint32_t word; /* futex: raised when somebody sleeps and it has moved */
	_Atomic uint32_t sleepers; /* of all processes, who wait for what it posts */
	_Atomic int32_t process;   /* its id, while it runs */
	_Atomic uint32_t waiting;  /* threads of its own that wait for others */
	_Atomic uint32_t doubts;   /* of these, who may go on without what they wait for */
	_Atomic uint64_t moves;    /* calls that it has entered */
	_Atomic uint64_t looks;    /* how often a waiting thread has looked, in vain */

	/* Of what is written into its memory: see history.c. */
	_Atomic uint32_t history_lock;
	uint64_t writes;         /* entries so far */
	uint64_t written;        /* bytes so far */
	_Atomic uint64_t looked; /* bytes of what it has looked up: see struct sr_group_look */

	struct sr_work_items work_items;

	_Atomic uint32_t regions;
	struct sr_group_region exposed[SR_GROUP_REGIONS];

	/* By thread: the SN whose call it has entered, and how many of its positions are known. */
	_Atomic uint64_t entered[SR_REPLAY_THREADS];
	/* The lowest that somebody sleeps for, 0: none.  Nobody is woken for what comes before. */
	_Atomic uint64_t awaited[SR_REPLAY_THREADS];
	_Atomic uint64_t positions[SR_REPLAY_THREADS];
};

/*
 * A connection in one direction.  Messages are numbered in the order of their
 * posts, which is that of their receives.  Found by its key, entered by whichever
 * side comes first.
 */
struct sr_group_key {
	int32_t from, to;        /* members */
	uint32_t from_qp, to_qp; /* numbers, as recorded */
	uint32_t generation;     /* how often these two were connected before */
	uint32_t reserved;
};

static inline bool sr_group_same_key(const struct sr_group_key *a, const struct sr_group_key *b)
{
	return a->from == b->from && a->to == b->to && a->from_qp == b->from_qp &&
	       a->to_qp == b->to_qp && a->generation == b->generation;
}

struct sr_group_channel {
	_Atomic uint32_t state; /* 0: free; 1: being entered; 2: in use */
	uint32_t reserved;
	struct sr_group_key key;
	_Atomic uint64_t posted;  /* messages whose description is in the file, and their bytes, */
	_Atomic uint64_t arrived; /* ... but for those over a device: of so many */
	uint64_t bytes;           /* where the next payload goes; the sender's */
	uint64_t freed;           /* the receiver's: up to here given back to the system */
};

/*
 * Who did something, and when in its process: the tick counts the process's posts.
 * Of two origins, one of which is known to come before the other, that has the
 * lower weight.
 */
struct sr_group_origin {
	uint64_t sn;
	uint64_t tick;
	uint64_t weight;
	int32_t member;
	uint32_t thread;
	uint32_t request; /* which of the post's */
	uint32_t reserved;
};

/* A message, at the channel's place + size * number. */
struct sr_group_message {
	struct sr_group_origin origin;
	uint64_t number; /* on its channel, from 0 */
	uint64_t at;     /* where the payload is, from the channel's place on */
	uint32_t length;
	uint32_t opcode;    /* enum ibv_wr_opcode */
	uint32_t by_device; /* its bytes are there when it has arrived */
	uint32_t reserved;
};

enum sr_group_write_kind {
	SR_GROUP_BYTES,
	SR_GROUP_ATOMIC, /* its result is not known yet: it may have written anything */
	SR_GROUP_OWN,    /* the member's own: stored by its CPU, or fetched to there */
	SR_GROUP_UNSEEN, /* the member's own, too, of which nobody knows what, and when: no bytes */
};

/* A change of a member's memory, within one page: by a request, or by itself. */
struct sr_group_write {
	struct sr_group_origin origin;
	uint64_t addr;
	uint64_t at; /* where its bytes are: bytes that were written before them */
	uint32_t length;
	uint32_t kind; /* enum sr_group_write_kind */
};

/*
 * Bytes that entered a member, from its own memory where peers write it, or from
 * another's where it was fetched: within one page.  Behind it: what was known of
 * all members (as in a position), the bytes, and of memory that was seen
 * changed the bytes that were there before.
 */
struct sr_group_look {
	struct sr_group_origin origin; /* of the request that fetched; of the member itself */
	struct sr_group_origin cpu;    /* if it was the memory's owner: its latest call known of */
	uint64_t addr;                 /* in the memory */
	uint64_t posted;               /* ticks of its own so far */
	uint64_t writes;               /* into its own memory so far */
	int32_t member;                /* whose memory */
	uint32_t length;
	uint32_t seen; /* in its own memory, where it has changed; 0: fetched */
	uint32_t reserved;
};

/*
 * From the entry of call `sn` on a thread knows this of the others: of each, that
 * the posts up to this tick had begun.  In the file, of each thread, ascending.
 */
struct sr_group_position {
	uint64_t sn;
	uint64_t known[]; /* by member */
};

struct sr_group {
	uint64_t magic;
	uint64_t size;      /* of this struct with its members: what is mapped */
	uint32_t members;   /* how many there are */
	uint32_t transport; /* enum sr_group_transport */
	struct sr_group_proxy proxy;
	struct sr_group_channel channel[SR_GROUP_CHANNELS];
	struct sr_group_member member[];
};

/*
 * Behind what is mapped, read and written by pread and pwrite: a sparse file, of
 * which only what is under way takes memory.
 */
static inline uint64_t sr_group_messages_at(uint32_t channel)
{
	return (1ull << 51) + ((uint64_t)channel << 37);
}

static inline uint64_t sr_group_writes_at(uint32_t member)
{
	return (1ull << 52) + ((uint64_t)member << 40);
}

static inline uint64_t sr_group_written_at(uint32_t member)
{
	return (1ull << 53) + ((uint64_t)member << 40);
}

static inline uint64_t sr_group_looks_at(uint32_t member)
{
	return (1ull << 54) + ((uint64_t)member << 40);
}

/* What a member's errand takes with it. */
static inline uint64_t sr_group_source_at(uint32_t member)
{
	return (1ull << 55) + ((uint64_t)member << 32);
}

static inline uint64_t sr_group_payload_at(uint32_t channel)
{
	return (1ull << 60) + ((uint64_t)channel << 44);
}

static inline uint64_t sr_group_positions_at(uint32_t member, uint32_t thread)
{
	return (1ull << 61) + ((uint64_t)(member * SR_REPLAY_THREADS + thread) << 40);
}

#define SR_GROUP_PAYLOAD (1ull << 44) /* of a channel, and no more */

/*
 * Over a device: each member's memory as the group's requests and its own program have
 * left it, at its addresses.  Peers READ it, and work on it by atomics; the program never
 * maps it.
 */
static inline uint64_t sr_group_image_at(uint32_t member)
{
	return (1ull << 62) + ((uint64_t)member << 48);
}

#define SR_GROUP_FILE_END ((1ull << 62) + (1ull << 57))

/* What a member's process has to know of a peer: the payload of SR_REC_REPLAY_PEER. */
struct sr_group_peer {
	uint64_t qp; /* address of the struct ibv_qp, of this member's */
	uint32_t qp_num, peer_qp_num;
	int32_t peer; /* member; -1: none of the group */
	uint32_t reserved;
};

/* What its call must wait for: the payload of SR_REC_REPLAY_WAIT. */
struct sr_group_wait {
	int32_t member;
	uint32_t thread;
	uint64_t sn;
};

/* Where a rank stands: a process outside the group. */
#define SR_RANK_OUTSIDE (-1)

/*
 * Who produced the bytes that entered a process.  The replayed process appends these to
 * control->found_fd, in the order in which its threads come to the values; the command resolves
 * the pending ones and stores the rest in the plan (rank-N/found: the layout is on disk).
 * Each byte of a value record is in exactly one of these.
 */
struct sr_found_value {
	uint64_t sn;          /* the call at which the value entered, or after which the fault was */
	uint64_t addr;
	uint64_t producer_sn; /* of the post, or of the call before the CPU's store */
	uint32_t thread;
	uint32_t fault; /* number of the thread's fault, from 1; 0: a completion */
	uint32_t length;
	uint32_t producer_thread;
	int32_t producer; /* rank or SR_RANK_OUTSIDE */
	uint16_t request; /* of the producer's call */
	uint16_t flags;   /* enum sr_found_flags */
};

enum sr_found_flags {
	SR_FOUND_UNCHANGED = 1, /* these bytes were there before: the value record only spans them */
	SR_FOUND_CPU = 2,       /* a store of the producer's CPU, READ from its memory */
	SR_FOUND_SEVERAL = 4,   /* other members may have written the same: the likeliest is named */
	SR_FOUND_PENDING = 8,   /* never on disk: the command resolves it when all ranks have ended */
	SR_FOUND_NOBODY = 16,   /* no member has written them, and no outsider can have */
};

_Static_assert(sizeof(struct sr_found_value) == 48, "on disk");

#endif
