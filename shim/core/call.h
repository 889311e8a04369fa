/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * call.h: an intercepted call.
 *
 * Every wrapper (made from calls.def) packs its arguments into words and calls sr_call().
 * sr_calls[] and sr_call_codecs[] hold what differs between calls; the engine (engine.h)
 * does what differs between a recording and a replay.
 */
#ifndef SHIM_CORE_CALL_H
#define SHIM_CORE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "calls.gen.h"
#include "shim/core/codec.h"

/* Where the real function is found. */
enum sr_source {
	SR_SOURCE_LIBC,
	SR_SOURCE_KERNEL, /* a system call without a wrapper: only trapped (trap.h) */
	SR_SOURCE_IBVERBS,
	SR_SOURCE_RDMACM,
	/* Direct verbs: the libraries of the providers (direct.c). */
	SR_SOURCE_MLX5,
	SR_SOURCE_MLX4,
	SR_SOURCE_EFA,
	SR_SOURCE_HNS,
	SR_SOURCE_MANA,
	SR_SOURCE_LIBSTDCXX,
	SR_SOURCE_CONTEXT, /* a member of ibv_context.ops, saved when the context was patched */
	SR_SOURCE_VERBS,   /* a member of verbs_context, saved at the same time */
	/* A member of another object, saved when that was patched (ops.h). */
	SR_SOURCE_QP,   /* ibv_qp_ex */
	SR_SOURCE_CQ,   /* ibv_cq_ex */
	SR_SOURCE_DM,   /* ibv_dm */
	SR_SOURCE_ANNOTATION, /* no library has it: what the program says of itself (sreplay/annotate.h) */
	SR_SOURCE_SHIM, /* no function: an event that the shim records as a call */
};

#define SR_CALL_NEWFD   1u  /* the result is a descriptor, captured from now on */
#define SR_CALL_WAIT    2u  /* may block */
#define SR_CALL_OPAQUE  4u  /* recorded by name only */
#define SR_CALL_VOID    8u  /* has no result */
#define SR_CALL_OPENS   16u /* opens a device (see sr_waiting) */
#define SR_CALL_DIRECT  32u /* a call of direct verbs: refused, or passed through unrecorded */
#define SR_CALL_CANCEL  64u /* a cancellation point */
/*
 * Also intercepted in a process outside the group, whose queue pairs the directory lists
 * (outside.h).
 */
#define SR_CALL_OUTSIDE 128u
#define SR_CALL_ANY     4096u /* captured for any descriptor */
#define SR_CALL_OUTPUT  16384u /* writes to its descriptor; captured for any, like SR_CALL_ANY */
#define SR_CALL_CHILDREN 32768u /* its record has the files that children have changed */
#define SR_CALL_THREAD  1024u /* makes a thread of the program: its record comes before what that thread does */
/* Hands requests to the kernel, as many as its second argument says, which may write what leaves the process. */
#define SR_CALL_SUBMITS 2048u
#define SR_CALL_PAUSES  512u /* made again and again by a program that waits for memory to change: only time passes */
#define SR_CALL_EFFECT  8192u /* a replay also makes the call, if it succeeded in the recording */

/* May wait: handlers of the program run during the call, not only after it. */
#define SR_CALL_BLOCKS 256u

/* sr_call_desc.order: when the call draws event numbers (order.h). */
#define SR_ORDER_ENTRY  1u
#define SR_ORDER_RETURN 2u
#define SR_ORDER_IDLE   4u /* ... unless it found nothing: its result is sr_call_desc.idle */
/* Before the real call it changes what other threads meet in memory: that belongs to its entry. */
#define SR_ORDER_EXPOSES 8u
/* Behind the real call it changes that again, which belongs to its return: with threads, it is recorded behind the call. */
#define SR_ORDER_UNEXPOSES 16u
/* Peers see in which order two of them came to a queue: nothing may come between the number and the real call. */
#define SR_ORDER_POSTS 32u
/* Nothing may come between the real call, which takes the next completion, and its number. */
#define SR_ORDER_POLLS 64u

/* How a function reports that something is not supported. */
enum sr_failure {
	SR_FAILS_NULL,     /* NULL, with errno set */
	SR_FAILS_ERRNO,    /* the error's number */
	SR_FAILS_NEGATIVE, /* the negated error number */
	SR_FAILS_MINUS,    /* -1, with errno set */
	SR_FAILS_FALSE,    /* asks whether the device is of this vendor */
	SR_FAILS_QUERY,    /* asks it something, into the second argument: the error's number on one of another vendor */
};

/*
 * The largest number of arguments of an intercepted call: as many as the ABI passes in registers.
 */
#define SR_MAX_ARGS 6

/*
 * sr_call_desc.length_of: how much the kernel reads or writes behind an argument that is an
 * address. Either 1 + the number of the argument that holds the length in bytes, or:
 */
#define SR_LENGTH_STRUCT   255 /* one object */
#define SR_STRUCT_BYTES    512 /* of one that has no size in size_of, at most */
#define SR_LENGTH_TEXT     254 /* a path or a name */
#define SR_LENGTH_PIECES   253 /* struct iovec[], as many as the next argument says */
#define SR_LENGTH_PIECES_THERE 249 /* the same, of memory of another process */
#define SR_LENGTH_MESSAGE  252 /* struct msghdr */
#define SR_LENGTH_MESSAGES 251 /* struct mmsghdr[], as many as the next argument says */
#define SR_LENGTH_COMPLETIONS 250 /* struct ibv_wc[], as many as the argument before says */
#define SR_LENGTH_COUNT    128 /* + 1 + number of the argument that counts small objects */

struct sr_call_desc {
	const char *name;
	uint8_t nargs;
	uint8_t source; /* enum sr_source */
	uint8_t ret_size;
	uint8_t ret_signed;
	uint8_t fails; /* direct verbs: enum sr_failure */
	uint16_t flags;
	uint8_t order;
	int16_t idle;
	/* Calls of libc and the kernel, and polls: SR_LENGTH_* for each argument that is an address. */
	uint8_t length_of[SR_MAX_ARGS];
	/* The size of one such object; 0: unknown. */
	uint8_t size_of[SR_MAX_ARGS];
	int16_t fd_arg; /* index of the descriptor that decides whether to capture, or -1 */
	int16_t nr; /* number of the equivalent system call, same arguments; or -1 */
	const char *version;
	void *wrapper;
	/*
	 * An operation's offset in its container. The container is an argument, or a member of
	 * that argument points to it (-1: the argument itself).
	 */
	size_t op_offset;
	int16_t holder_arg, holder_member;
	/* Is the call captured with these arguments? NULL: always, or as fd_arg says. */
	bool (*when)(const uint64_t *a);
	/* Recording: called instead of the real function. */
	uint64_t (*invoke)(const struct sr_call_desc *d, uint64_t *a);
	/* Replay: called after the results were delivered. */
	void (*replayed)(const struct sr_call_desc *d, uint64_t *a, uint64_t result);
};

struct sr_call_codec {
	void (*put_in)(struct sr_buf *b, const uint64_t *a);
	void (*put_out)(struct sr_buf *b, const uint64_t *a, uint64_t result);
	void (*deliver)(struct sr_cursor *c, const uint64_t *a, uint64_t result);
	bool reads_memory; /* put_in, of a call that may find none there: see calls/codec/arguments.h */
};

extern const struct sr_call_desc sr_calls[SR_CALL_COUNT] SR_HIDDEN;
extern const struct sr_call_codec sr_call_codecs[SR_CALL_COUNT]
    SR_HIDDEN;

/* The numbers of the calls that are exported functions, sorted by name. */
extern const uint16_t sr_exported_calls[];
extern const size_t sr_exported_count;

/*
 * The head of each call record's payload. The arguments (in_size bytes) follow, then the
 * results, in the order of calls.def.
 */
struct sr_call_head {
	uint64_t site; /* the address the call returns to */
	uint64_t result;
	int32_t error; /* errno after the call */
	uint32_t in_size : 30;
	uint32_t
	    orders : 2; /* how many event numbers (u64 each) end the payload: see order.h */
};

/*
 * A call record that equals the previous one and is at most this long only increments a
 * count (SR_REC_REPEAT).
 */
#define SR_REPEAT_MAX 160

/* All wrappers call this, except those of direct verbs. */
uint64_t sr_call(enum sr_call_number n, uint64_t *a, void *site);

/* The wrappers of direct verbs call this, which may refuse the call (direct.c). */
uint64_t sr_direct_call(enum sr_call_number n, uint64_t *a, void *site);

/* Calls the function that the wrapper replaces. */
uint64_t sr_real(const struct sr_call_desc *d, const uint64_t *a);

/* The result of a call that cannot be made. */
uint64_t sr_unavailable(const struct sr_call_desc *d);

/* sr_real(), with what the recorder does around this call. */
static inline uint64_t sr_invoke(const struct sr_call_desc *d, uint64_t *a)
{
	return d->invoke ? d->invoke(d, a) : sr_real(d, a);
}

static inline enum sr_call_number sr_call_number(const struct sr_call_desc *d)
{
	return (enum sr_call_number)(d - sr_calls);
}

#endif
