/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * standin.h: a libibverbs.so.1 without devices, for measurements and native tests.
 *
 * It has one device, standin0, and objects like a real provider's: extended contexts with
 * operation tables, and work-request builders for each queue pair.
 *     device.c   the device, contexts, protection domains, regions, channels
 *     queues.c   completion queues, shared receive queues, queue pairs
 *     post.c     the posting operations and the builders of ibv_qp_ex
 *     wire.c     what a posted request does
 *
 * A queue pair that was never connected completes each request at once and moves no data: a
 * benchmark then measures what surrounds the operations. A queue pair that was moved to RTR
 * with the number of a queue pair of this process as its destination exchanges messages
 * with that one, with the orders, completions and errors of RC (or UC, UD, XRC).
 *
 * Requests are executed in the post. With STANDIN_SEED=N or =time in the environment, they
 * are executed in later calls, a few at a time and from randomly chosen queue pairs:
 * completions of different queue pairs then come in any order.
 *
 * With STANDIN_THREAD=N a thread executes them, with random pauses between them, like a
 * real device: memory changes while the program makes no call.
 *
 * One lock guards everything; a process with one thread does not take it.
 */
#ifndef STANDIN_H
#define STANDIN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/single_threaded.h>

#include <infiniband/verbs.h>

#define SI_MAX_WR     4096
#define SI_MAX_SGE    16
#define SI_MAX_INLINE 256
#define SI_MAX_QP     4096 /* a power of two */

struct si_channel {
	struct ibv_comp_channel channel;
	int write_fd; /* of the pipe whose other end is channel.fd */
};

/* A slot of a queue is free again when the completion of its request is polled. */
struct si_cqe {
	struct ibv_wc wc;
	uint32_t index; /* of the request in its queue */
	uint32_t srqn;  /* a shared queue's number, or 0 */
	bool sent;
	bool solicited;
};

enum si_armed {
	SI_ARMED_NOT,
	SI_ARMED_SOLICITED,
	SI_ARMED_ANY,
};

struct si_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	struct si_cqe *ring;
	uint32_t size, head, tail;
	enum si_armed armed;
	uint32_t events_taken; /* by ibv_get_cq_event */
	int users;
	struct ibv_wc current; /* between start_poll and end_poll */
	uint64_t polled;       /* completions so far: what stands for their times */
};

struct si_recv {
	uint64_t wr_id;
	uint32_t num_sge;
	struct ibv_sge sge[SI_MAX_SGE];
};

/* A queue pair's receive queue or a shared one. */
struct si_rq {
	struct si_recv *ring;
	uint32_t size, max_sge;
	/* Slots up to freed are free again, up to head received into, up to tail posted. */
	uint32_t freed, head, tail;
	uint32_t srqn; /* 0: a queue pair's */
	uint64_t asked;
};

struct si_srq {
	struct ibv_srq srq;
	struct si_rq rq;
	uint32_t limit;
	struct si_cq *cq; /* XRC */
	int users;
	struct si_srq *next;
};

struct si_send {
	uint64_t wr_id;
	enum ibv_wr_opcode opcode;
	unsigned int flags;
	__be32 imm_data; /* or the key to invalidate */
	uint32_t rkey;
	uint64_t remote_addr;
	uint64_t compare_add, swap;
	uint32_t remote_qpn, remote_qkey, remote_srqn;
	uint32_t num_sge;
	struct ibv_sge sge[SI_MAX_SGE];
	uint32_t inline_length;
	uint8_t inline_data[SI_MAX_INLINE];
};

struct si_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
	};
	bool has_builders;
	bool connected;
	struct ibv_qp_init_attr_ex init;
	struct ibv_qp_attr attr;
	/* Slots up to freed are free again, up to next executed, up to tail posted. */
	struct si_send *sq;
	uint32_t sq_freed, sq_next, sq_tail;
	uint64_t asked; /* requests that were to be posted */
	/* Between wr_start and wr_complete: slots after sq_tail, and the first error. */
	uint32_t built;
	int build_error;
	bool build_locked;
	struct si_rq rq;
	struct si_qp *next;
};

extern pthread_mutex_t si_mutex;
extern uint64_t si_random_state; /* 0: requests are executed in the post */
extern uint64_t si_faults;       /* 0: none */
extern bool si_has_thread;       /* ... of the device's, that executes them */

static inline bool si_lock(void)
{
	if (__libc_single_threaded)
		return false;
	pthread_mutex_lock(&si_mutex);
	return true;
}

static inline void si_unlock(bool locked)
{
	if (locked)
		pthread_mutex_unlock(&si_mutex);
}

/* NULL, with errno set. */
static inline void *si_refuse(int error)
{
	errno = error;
	return NULL;
}

/* ---- device.c ---- */

/*
 * STANDIN_FAULTS: does the n-th operation of this object fail? The choice is random, but
 * does not depend on other objects: the object's name is what the program calls it.
 */
bool si_fails(const void *name, uint64_t n, uint32_t one_in);

/* The protection domain of the region with this key; NULL if there is none. */
struct ibv_pd *si_domain(uint32_t key);

/*
 * The memory of the region with this key, if the region covers the range and allows the
 * access; else NULL.
 */
void *si_memory(uint32_t key, uint64_t addr, uint64_t length, int access);

/* ---- queues.c ---- */

extern struct si_qp *si_qps;
struct si_qp *si_qp_find(uint32_t number);
struct si_srq *si_srq_find(uint32_t number);

void si_cq_push(struct si_cq *cq, const struct si_cqe *cqe);
int si_poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc);
int si_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *si_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
struct ibv_srq *si_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int si_get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct ibv_qp *si_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

/* ---- post.c ---- */

int si_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int si_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int si_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
void si_qp_add_builders(struct si_qp *qp);

/* ---- wire.c; with the lock held ---- */

/* Call after a post, a poll or a change of state: executes the requests that are due. */
void si_progress(void);

/* Executes all requests that can be executed. */
void si_finish(void);

/* Starts the device's thread. */
void si_thread_start(void);

/* Completes the request at the head of the send queue without executing it. */
void si_complete_unsent(struct si_qp *qp, const struct si_send *send, enum ibv_wc_status status);

/* Puts the queue pair into the error state and flushes all posted requests. */
void si_qp_fail(struct si_qp *qp);

#endif
