/* SPDX-License-Identifier: BSD-2-Clause */
/* loopback.h: the queue pairs of loopback, and what each of its files does for the others. */
#ifndef PROGRAMS_LOOPBACK_H
#define PROGRAMS_LOOPBACK_H

#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "check.h"
#include "verbs/loopback_qp.h"

#define DEPTH     24 /* of queues: small, so that they are full now and then */
#define CHAIN     40
#define SLOTS     64
#define SLOT      4096
#define MAX_SGE   4
#define INLINE    128
#define MAX_PAIRS 4
#define ENDS      (2 * MAX_PAIRS)

struct posted {
	uint64_t wr_id;
	bool signaled, fetches;
	int n;
	struct ibv_sge sge[MAX_SGE];
};

/* Requests in the order of their posts; slot n of a buffer belongs to the n-th modulo SLOTS. */
struct fifo {
	struct posted entries[SLOTS];
	unsigned int head, tail;
};

/* One end of a connection, and its memory. */
struct end {
	int name;
	enum ibv_qp_type type;
	struct ibv_qp *qp;
	struct ibv_qp_ex *ex;
	struct end *peer;
	struct fifo sent, received;
	char *source, *sink, *fetched, *region;
	struct ibv_mr *source_mr, *sink_mr, *fetched_mr, *exposed_mr;
	uint64_t sink_iova;
};

struct world {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq[2]; /* sends, receives; or the same twice */
	/* The same as extended ones, or NULL, and what they offer. */
	struct ibv_cq_ex *cq_ex[2];
	uint64_t cq_flags;
	struct ibv_srq *srq; /* or NULL */
	struct fifo srq_posted;
	struct end ends[ENDS];
	int n_ends;
	bool reused_ids, sig_all;
	const char *features;
};
extern struct world w;

/* tools.c */
extern uint64_t random_state;
uint32_t chance(uint32_t below);
bool one_in(uint32_t n);
/* Is this feature wanted, and is it its turn? */
bool feature(char letter, uint32_t n);
void fill(char *p, size_t n);
uint64_t sum(uint64_t h, const void *p, size_t n);
/* Cuts `length` bytes from `base` into at most MAX_SGE pieces, with gaps. */
int cut(struct ibv_sge *sge, uint64_t base, uint32_t length, uint32_t lkey);

/* completions.c */
int poll_some(struct ibv_cq *cq, int room);
/* Until nothing comes any more; the stand-in may do nothing in a few polls in a row. */
void drain(void);
void events(void);

/* posts.c */
void post_receives(struct end *e);
void post_sends(struct end *e);

/* pairs.c */
int to_state(struct end *e, enum ibv_qp_state state);
void connect_ends(void);
void create_qp(struct end *e);
void destroy_qp(struct end *e);
void create_memory(struct end *e, int name);

/* threads.c */
/* Completions are printed in their order; how many requests each thread posts. */
extern bool in_turns;
extern uint32_t requests;
int poll_in_threads(bool shared);

#endif
