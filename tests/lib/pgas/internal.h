/* SPDX-License-Identifier: BSD-2-Clause */
/* internal.h: what the parts of the runtime share. */
#ifndef PGAS_INTERNAL_H
#define PGAS_INTERNAL_H

#include <infiniband/verbs.h>

#include "pgas.h"

/* The largest number of pending requests to one peer. */
#define PGAS_DEPTH     64
/* Staging buffer for blocking transfers whose local memory is not registered. */
#define PGAS_STAGING   65536

/* What a rank must know about another one; exchanged at the start. */
struct pgas_address {
	uint64_t base; /* of the shared heap */
	uint32_t rkey;
	uint32_t lid;
	union ibv_gid gid;
	uint32_t qpn[PGAS_MAX_RANKS]; /* of the queue pair for each rank */
};

struct pgas_heap {
	char *base;
	size_t size, used;
	struct ibv_mr *mr;
};

struct pgas_peer {
	struct ibv_qp *qp;
	uint64_t base;
	uint32_t rkey;
	uint64_t posted, done; /* requests; they complete in order */
};

/* This process's rank, device, memory and connections: one to each rank, including itself. */
struct pgas {
	int rank, ranks;
	struct ibv_context *device;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	uint32_t max_inline;
	struct pgas_heap shared, private;
	char *staging;
	uint64_t *atomic_result;
	struct pgas_peer peers[PGAS_MAX_RANKS];
	uint64_t puts, gets, atomics, bytes, started_ns;
};

extern struct pgas pgas;

/* The ranks beside this one, in a ring of all. */
static inline int pgas_next(void)
{
	return (pgas.rank + 1) % pgas.ranks;
}

static inline int pgas_previous(void)
{
	return (pgas.rank + pgas.ranks - 1) % pgas.ranks;
}

/* bootstrap.c: sends each rank's record to all ranks, through pgasrun. */
void pgas_exchange(const void *mine, void *all, size_t bytes);

/* connect.c */
void pgas_connect(int rank, int ranks);
void pgas_disconnect(void);
void pgas_register(struct pgas_heap *heap, int access);
/* Describes this rank to others, and uses the description of another rank. */
void pgas_describe(struct pgas_address *a);
void pgas_reach(int rank, const struct pgas_address *a);
/* Connects the program's own queue pairs, one for each rank or NULL, as the runtime connects its own. */
void pgas_connect_more(struct ibv_qp *const qps[]);
/* One to each rank, as `attr` says, and connected. */
void pgas_make_queue_pairs(struct ibv_qp *qps[], struct ibv_qp_init_attr *attr);
/* From its creation to the state in which receives may be posted. */
void pgas_prepare_queue_pair(struct ibv_qp *qp);

/* transfer.c: one request on a queue pair of the program's own.  cq: where it waits for its completion; NULL: it does not. */
void pgas_transfer(struct ibv_qp *qp, struct ibv_cq *cq, enum ibv_wr_opcode opcode, const struct ibv_sge *local, uint64_t remote,
		   uint32_t rkey);

/* sync.c */
void pgas_make_sync(void);

static inline bool pgas_inside(const struct pgas_heap *heap, const void *address)
{
	return (const char *)address >= heap->base &&
	       (const char *)address < heap->base + heap->size;
}

/* A region of the program's own, besides the runtime's. */
static inline struct ibv_mr *pgas_own_region(volatile void *memory, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(pgas.pd, (void *)memory, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	if (!mr)
		pgas_fail("cannot register");
	return mr;
}

#endif
