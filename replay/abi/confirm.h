/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * confirm.h: the file by which `sreplay confirm` and the recorded processes of a job find the two
 * accesses of a race, hold them, and let them go in an order.
 *
 * The command fills it in and names it in SREPLAY_CONFIRM; each rank maps it.  The ranks agree by
 * it alone, so they have to be on one node.
 */
#ifndef REPLAY_ABI_CONFIRM_H
#define REPLAY_ABI_CONFIRM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define SR_CONFIRM_MAGIC  0x32666e6f635f7273ull
#define SR_CONFIRM_NAME   32 /* of a call, in calls.def */
#define SR_CONFIRM_VALUE  64 /* so much of what an access found or left is kept */
#define SR_CONFIRM_STACKS 8  /* different ones of one access */

enum sr_confirm_kind {
	SR_CONFIRM_REQUEST, /* from its post until it has landed */
	SR_CONFIRM_CALL,    /* the CPU's, within a call: inline data */
	SR_CONFIRM_LOAD,    /* an instruction that faults */
	SR_CONFIRM_STORE,   /* the CPU's, between two calls */
};

enum sr_confirm_phase {
	SR_CONFIRM_SEARCHING,
	SR_CONFIRM_BOTH,       /* both accesses are pending, and overlap */
	SR_CONFIRM_FIRST_DONE, /* the first one has taken effect, the other one is held */
	SR_CONFIRM_DONE,       /* both have, in this order */
	SR_CONFIRM_FAILED,     /* the one that was let go did not take effect */
};

enum sr_confirm_state { SR_SIDE_AWAY, SR_SIDE_PENDING, SR_SIDE_GOES, SR_SIDE_OVER };

/* One of the two accesses. */
struct sr_confirm_side {
	/* Filled in by the command. */
	int32_t rank;
	uint32_t kind;   /* enum sr_confirm_kind */
	uint32_t opcode; /* of a request */
	bool is_local;   /* of a request: its own buffer is accessed */
	bool is_message; /* of a request: it comes into a posted receive, at the recorded memory */
	bool is_write, fetches;     /* fetches: a request whose value is what it brought */
	char call[SR_CONFIRM_NAME]; /* the post; of a store: the call in front of it */
	char next[SR_CONFIRM_NAME]; /* of a store: the call behind it */
	uint64_t site, next_site;   /* of these calls; of a load: its instruction */
	uint64_t code, next_code;   /* the same, as sr_stack_place() names it; 0: not known */
	uint64_t stack;             /* a hash (logd/base/stack_hash.h); 0: any */
	uint64_t occurrence;        /* from 1; 0: any */
	uint64_t begin, end;        /* the memory as it was recorded */
	uint64_t instruction, instruction_code; /* of a load or store; 0: not known */
	uint32_t recorded_thread;

	/* Of the run; the range and the value under `lock`. */
	_Atomic uint32_t state;
	uint64_t at_begin, at_end;
	_Atomic uint64_t seen, held, given_up; /* how often */
	_Atomic uint64_t arrived_ns;           /* first, of the occurrence */
	_Atomic uint64_t held_ns;              /* in all */
	_Atomic uint32_t thread;
	_Atomic uint64_t sn;
	bool landed; /* proven */
	bool is_exact; /* it was held just in front of its instruction */
	uint32_t value_n;
	uint64_t value_hash;
	uint8_t value[SR_CONFIRM_VALUE];
};

struct sr_confirm {
	uint64_t magic;
	uint32_t first;   /* which side goes first */
	bool by_thread;   /* threads are held, not requests */
	uint64_t wait_ns; /* as long as an access is held at first */

	_Atomic uint32_t lock; /* for a few instructions */
	_Atomic uint32_t phase;
	_Atomic uint32_t changes; /* a futex */
	uint64_t begin, end;      /* what both access */
	struct sr_confirm_side side[2];
};

#endif
