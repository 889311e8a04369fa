/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * group.h: the memory file that all processes of a replayed group share.
 *
 * `sreplay replay` makes it; each replayed process, each process that feeds one, and the
 * proxy map it.  It holds how far each member is and what is in flight between members.
 * It never decides what a program sees: the trace does.  It decides when a call returns
 * and what the report says.
 */
#ifndef REPLAY_ABI_GROUP_H
#define REPLAY_ABI_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/opcodes.h"
#include "replay/abi/control.h"

#define SR_GROUP_MAGIC    0x70756f7267727273ull
#define SR_GROUP_MEMBERS  256
#define SR_GROUP_CHANNELS 16384 /* a power of two */
#define SR_GROUP_REGIONS  1024
#define SR_GROUP_MAPPINGS 4096

/* Kept of the writes into each member's memory, entries and bytes; the oldest are dropped. */
#define SR_GROUP_WRITES   (1ull << 24)
#define SR_GROUP_WRITTEN  (1ull << 32)

enum sr_group_transport {
	SR_GROUP_NONE, /* each rank alone, from its trace */
	SR_GROUP_SHM,  /* bytes move through this file */
	SR_GROUP_RXE,  /* ... through queue pairs of the proxy: see proxy.h */
	SR_GROUP_BEST, /* rxe if there is a device for it, else shm */
};

enum sr_group_state {
	SR_GROUP_STARTS,
	SR_GROUP_RUNS,
	SR_GROUP_LINGERS, /* has made its last call; peers may still READ its memory */
	SR_GROUP_ENDED,
};

/* Memory that peers write; the history has every write to it, the owner's too. */
struct sr_group_region {
	uint64_t addr, length;
};

/* Memory that a member shares with other processes, by a mapping of its own. */
struct sr_group_shared {
	uint64_t addr, length;
	uint64_t object, offset; /* object: the same number for the same memory in all members; 0: not known */
	uint64_t since;          /* writes into the member's memory before it was mapped */
};

/* A ring of `room` bytes in the file at `base`; the next byte goes to `at` modulo `room`. */
struct sr_group_place {
	uint64_t base, at, room;
};

/* Takes room for as many of the next n bytes as fit in one piece; *at: their file offset. */
static inline size_t sr_group_place_take(struct sr_group_place *to, size_t n, uint64_t *at)
{
	uint64_t in_room = to->at % to->room;
	size_t part = n < to->room - in_room ? n : to->room - in_room;

	*at = to->base + in_room;
	to->at += part;
	return part;
}

#define SR_GROUP_WORK_ITEMS 64u         /* in flight, of each member; a power of two */
#define SR_GROUP_SOURCE  (64u << 10) /* bytes that the items in flight send */
#define SR_WORK_ITEM_FAR    UINT32_MAX  /* its bytes are at sr_group_source_at() */

/* A request that a member's process asks the proxy to repeat; arriving bytes go to `to`. */
struct sr_work_item {
	uint64_t stamp; /* orders the items of all members: lower stamps are done first */
	struct sr_group_call call;
	uint32_t channel; /* the connection, in this member's direction */
	uint32_t opcode;  /* enum ibv_wr_opcode */
	uint32_t length;
	uint32_t source; /* offset of its bytes in sr_work_items.source, or SR_WORK_ITEM_FAR */
	uint32_t imm_data;
	uint32_t reserved;
	uint64_t remote_addr; /* in the peer's memory, as recorded */
	uint64_t compare_add, swap;
	uint64_t result;  /* of an atomic: what the memory holds afterwards, as recorded */
	uint64_t arrives; /* messages of the channel that have arrived after it; 0: not a message */
	struct sr_group_place to; /* room 0: arriving bytes are dropped */
};

/*
 * A member's work items, in the order of its requests.  The process waits only for an item
 * whose bytes it needs (transfer.c); all are done when the member has ended.
 */
struct sr_work_items {
	_Atomic uint64_t asked;  /* written by the process */
	_Atomic uint64_t done;   /* written by the proxy */
	_Atomic uint32_t failed; /* item number `done` failed: `text` says why */
	_Atomic uint32_t waits;  /* the process sleeps until a message arrives */
	_Atomic uint64_t wanted; /* ... or until `done` reaches this; 0: it does not sleep */
	_Atomic uint32_t word;   /* futex: raised for both */
	char text[128];
	uint32_t source_at; /* bytes of the source in use */
	struct sr_work_item work_item[SR_GROUP_WORK_ITEMS];
	uint8_t source[SR_GROUP_SOURCE];
};

enum sr_proxy_state {
	SR_PROXY_NONE,
	SR_PROXY_READY,
	SR_PROXY_FAILED, /* it could not start, or has ended */
};

/* The proxy: the process that has the device; see proxy.h. */
struct sr_group_proxy {
	_Atomic uint32_t state; /* enum sr_proxy_state; a futex */
	_Atomic uint32_t word;  /* futex: raised to wake it */
	_Atomic uint32_t sleeping;
	_Atomic int32_t process;
	_Atomic uint64_t stamps; /* of the last work item */
	_Atomic uint64_t steps;  /* raised when the device has done a piece */
	uint64_t requests[SR_OP_KINDS], bytes; /* done */
	_Atomic uint64_t others; /* requests of queue pairs that are not RC; they go through the file */
	char text[192];          /* the device, or why there is none */
};

/*
 * Members are in the order of their ranks; a member's number is its index.  At a call, a
 * thread first marks the call as entered; at a post, once the posted requests can be found.
 */
struct sr_group_member {
	int32_t rank;
	char name[32]; /* for users */
	_Atomic uint32_t state; /* enum sr_group_state */
	_Atomic uint32_t whole;    /* it has reached the end of its program: all its writes are known */
	_Atomic uint32_t word; /* futex: raised when it moves and others sleep */
	_Atomic uint32_t sleepers; /* in all processes, waiting for its posts */
	_Atomic int32_t process;   /* its id, while it runs */
	_Atomic uint32_t waiting;  /* its threads that wait for others */
	_Atomic uint32_t doubts;   /* of these, the ones that may give up waiting */
	_Atomic uint64_t moves;    /* calls that it has entered */
	_Atomic uint64_t checks;   /* how often a waiting thread checked in vain */

	/* The history of its memory: see history.c. */
	_Atomic uint32_t history_lock;
	uint64_t writes;         /* entries so far */
	uint64_t written;        /* bytes so far */
	_Atomic uint64_t sampled; /* bytes of struct sr_group_sample so far */
	_Atomic uint64_t found;	  /* bytes of struct sr_found_value so far */

	struct sr_work_items work_items;

	_Atomic uint32_t regions;
	struct sr_group_region exposed[SR_GROUP_REGIONS];
	/* Memory shared with other processes, which store there without a request; registered or not. */
	_Atomic uint32_t shared_n;
	struct sr_group_shared shared[SR_GROUP_MAPPINGS]; /* the last one may be several: group.c */

	/* By thread: how far it has come (sr_group_reached), and the number of positions. */
	_Atomic uint64_t reached[SR_REPLAY_THREADS];
	/* The lowest that a thread sleeps for; 0: none.  Earlier ones wake nobody. */
	_Atomic uint64_t awaited[SR_REPLAY_THREADS];
	_Atomic uint64_t positions[SR_REPLAY_THREADS];
};

/*
 * A connection in one direction.  Messages are numbered in the order of their posts, which
 * is also that of their receives.  The side that comes first enters it; the key finds it.
 */
struct sr_group_key {
	int32_t from, to;        /* members */
	uint32_t from_qp, to_qp; /* numbers, as recorded */
	uint32_t generation;     /* earlier connections of these two */
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
	_Atomic uint64_t posted;  /* messages whose description and bytes are in the file */
	_Atomic uint64_t arrived; /* over a device: messages whose bytes have arrived */
	uint64_t bytes;           /* where the next payload goes; written by the sender */
	uint64_t freed;           /* released up to here; written by the receiver */
};

/*
 * The call that did something.  The tick counts the posts of its process.  If one origin is
 * known to come before another, it has the lower weight.
 */
struct sr_group_origin {
	uint64_t sn;
	uint64_t tick;
	uint64_t weight;
	int32_t member;
	uint32_t thread;
	uint32_t request; /* which of the post's */
	uint32_t queue;   /* the number of the queue pair to which it was posted; 0: no post */
};

/* A message, at the channel's place + size * number. */
struct sr_group_message {
	struct sr_group_origin origin;
	uint64_t number; /* on its channel, from 0 */
	uint64_t at;     /* offset of the payload in the channel's part of the file */
	uint32_t length;
	uint32_t opcode;    /* enum ibv_wr_opcode */
	uint32_t by_device; /* its bytes come with `arrived` */
	uint32_t written;   /* by a WRITE with immediate data, which brings its receive no bytes */
};

enum sr_group_write_kind {
	SR_GROUP_BYTES,
	SR_GROUP_ATOMIC, /* the result is not known yet: it may have written anything */
	SR_GROUP_SWAP,   /* the result of this compare-swap is not known yet: it has written its bytes, or nothing */
	SR_GROUP_OWN,    /* stored by the member's CPU, or fetched into its memory */
	SR_GROUP_UNSEEN, /* stored by the member at an unknown time; has no bytes */
	SR_GROUP_SHARED, /* never in the file: stored by a CPU through another mapping of this memory */
	SR_GROUP_FETCHED, /* as UNSEEN, but what came is from a READ of the member from another one */
	SR_GROUP_LOCK,    /* a lock of libc's of the member is here; has no bytes */
	SR_GROUP_HEADER,  /* of a datagram of the origin's, which the network has put in front of it; has no bytes */
	SR_GROUP_ENTERED, /* brought by a completion, but the program may have loaded it before that */
};

/* The bytes of an atomic whose result is not known yet. */
struct sr_group_operands {
	uint64_t value;    /* to be added, or to be stored */
	uint64_t expected; /* of a compare-swap */
};

static inline bool sr_group_is_open(uint16_t kind)
{
	return kind == SR_GROUP_ATOMIC || kind == SR_GROUP_SWAP;
}

static inline bool sr_group_has_no_bytes(uint16_t kind)
{
	return kind == SR_GROUP_UNSEEN || kind == SR_GROUP_FETCHED || kind == SR_GROUP_LOCK || kind == SR_GROUP_HEADER;
}

/* It says what may be in memory at some time, and is no change that others find there. */
static inline bool sr_group_is_no_change(uint16_t kind)
{
	return sr_group_has_no_bytes(kind) || kind == SR_GROUP_ENTERED;
}

/* A change of a member's memory, within one page. */
struct sr_group_write {
	struct sr_group_origin origin;
	uint64_t addr;
	uint64_t at; /* offset of its bytes in the written bytes */
	uint32_t length;
	uint16_t kind;   /* enum sr_group_write_kind */
	uint16_t holder; /* the member among whose written bytes its are; set by the command */
};

/* In a sample's `overlaid`. */
#define SR_GROUP_OVERLAID_BY_CALL 2u

/*
 * Bytes that entered a member: a sample of its own exposed memory, or fetched from
 * another's; within one page.  In the file it is followed by what the member knew of all
 * members (as in a position), by the bytes, and, if seen, by the bytes that were there before.
 * Bytes that an earlier sample has stand there only.
 */
struct sr_group_sample {
	struct sr_group_origin origin; /* of the request that fetched, or of the member's call */
	struct sr_group_origin cpu;    /* the latest known call of the memory's owner */
	uint64_t addr;                 /* in the memory */
	uint64_t posted;               /* the member's ticks so far */
	uint64_t writes;               /* into its own memory so far */
	int32_t member;                /* whose memory */
	uint32_t length;
	uint32_t seen; /* 1: a change in its own memory; 0: fetched */
	/*
	 * 1: fetched, but a later READ of the process may have landed over it; or on the main thread's stack, where a call
	 * may have left its variables, and another one is not made in a replay.
	 * SR_GROUP_OVERLAID_BY_CALL: another process wrote it by process_vm_writev, into memory that is not exposed.
	 */
	uint32_t overlaid;
	uint64_t bytes_at; /* where the bytes are among the samples; 0: behind this one */
};

/*
 * From the entry of call `sn` on, a thread knows that each member's posts up to known[] had
 * begun.  The file has these for each thread, ascending.
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
 * The rest of the file is not mapped, but read and written by pread and pwrite.  It is
 * sparse: only what is in flight takes memory.
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

static inline uint64_t sr_group_samples_at(uint32_t member)
{
	return (1ull << 54) + ((uint64_t)member << 40);
}

/* struct sr_found_value, one after the other. */
static inline uint64_t sr_group_found_at(uint32_t member)
{
	return (1ull << 56) + ((uint64_t)member << 40);
}

/* The bytes that a member's work item sends. */
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

#define SR_GROUP_PAYLOAD (1ull << 44) /* room of a channel */

/*
 * Over a device: each member's memory as requests and its own program left it, at its
 * addresses.  Peers READ it and apply atomics to it; the program never maps it.
 */
static inline uint64_t sr_group_image_at(uint32_t member)
{
	return (1ull << 62) + ((uint64_t)member << 48);
}

#define SR_GROUP_FILE_END ((1ull << 62) + (1ull << 57))

/* Payload of SR_REC_REPLAY_PEER: the other end of a queue pair, from the next call on. */
struct sr_group_peer {
	uint64_t qp; /* address of this member's struct ibv_qp */
	uint32_t qp_num, peer_qp_num;
	int32_t peer; /* member; -1: outside the group */
	uint32_t reserved;
};

/* Payload of SR_REC_REPLAY_WAIT: the call that the next one must wait for, or the stop behind it (sr_group_stop). */
struct sr_group_wait {
	int32_t member;
	uint32_t thread;
	uint64_t sn;
	uint64_t stop;
};

/* A call that a thread has entered, or a stop behind it: a later one has a higher number. */
static inline uint64_t sr_group_reached(uint64_t sn, uint64_t stop)
{
	return sn << 16 | (stop < UINT16_MAX ? stop : UINT16_MAX);
}

static inline uint64_t sr_group_reached_sn(uint64_t reached)
{
	return reached >> 16;
}

/* Where a rank stands: a process outside the group. */
#define SR_RANK_OUTSIDE (-1)

/*
 * Who produced the bytes that entered a process.  The replayed process appends these to its part of
 * the group's file, in the order in which its threads come to the values; the command resolves
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
	SR_FOUND_SHARED = 32,   /* from memory that processes share: any of them may have stored them */
};

_Static_assert(sizeof(struct sr_found_value) == 48, "on disk");

#endif
