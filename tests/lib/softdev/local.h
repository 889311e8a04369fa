/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * local.h: a process's own objects: what libibverbs gives to a program, and where it is in the
 * fabric.
 */
#ifndef SOFTDEV_LOCAL_H
#define SOFTDEV_LOCAL_H

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/single_threaded.h>

#include "fabric.h"
#include "raw.h"

struct sd_context {
	struct verbs_context verbs;
	uint32_t async; /* channel + 1 */
};

struct sd_pd {
	struct ibv_pd pd;
	uint32_t number;
	struct ibv_pd *of; /* of a parent domain */
	uint32_t users;
};

struct sd_mr {
	struct ibv_mr mr;
	uint32_t index; /* of the region */
};

struct sd_mw {
	struct ibv_mw mw;
	uint32_t index;
};

struct sd_ah {
	struct ibv_ah ah;
	struct ibv_ah_attr attr;
};

struct sd_local_channel {
	struct ibv_comp_channel channel;
	uint32_t index_1;
};

struct sd_local_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	struct sd_cq *shared;
	uint32_t index_1;
	uint32_t events_taken; /* by ibv_get_cq_event */
	void *doorbell;	       /* a page that is mapped as a provider maps its card's; nobody rings */
	struct ibv_wc current; /* between start_poll and end_poll */
	uint64_t polled;       /* completions so far: what stands for their times */
};

struct sd_local_srq {
	struct ibv_srq srq;
	struct sd_srq *shared;
	uint32_t index_1;
	uint32_t events_taken;
};

struct sd_local_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
	};
	struct sd_qp *shared;
	struct ibv_qp_init_attr_ex init;
	uint32_t events_taken;
	bool has_builders;
	/* Between wr_start and wr_complete: slots after sq_tail, and the first error. */
	uint32_t built;
	int build_error;
	/* Only one thread at a time posts sends: 1, or 2 if others wait. A batch may take as long
	 * as the program likes. */
	uint32_t posting;
};

static inline struct sd_context *sd_context(struct ibv_context *context)
{
	return (struct sd_context *)verbs_get_ctx(context);
}

static inline uint32_t sd_pd_number(struct ibv_pd *pd)
{
	return pd ? ((struct sd_pd *)pd)->number : 0;
}

static inline void sd_posting_begins(struct sd_local_qp *qp)
{
	uint32_t none = 0;

	if (__libc_single_threaded)
		return;
	if (__atomic_compare_exchange_n(&qp->posting, &none, 1, false, __ATOMIC_ACQUIRE,
					__ATOMIC_RELAXED))
		return;
	while (__atomic_exchange_n(&qp->posting, 2, __ATOMIC_ACQUIRE))
		raw_futex(&qp->posting, FUTEX_WAIT_PRIVATE, 2, NULL);
}

static inline void sd_posting_ends(struct sd_local_qp *qp)
{
	/* It is not held if there was no other thread when it began. */
	if (__atomic_load_n(&qp->posting, __ATOMIC_RELAXED) &&
	    __atomic_exchange_n(&qp->posting, 0, __ATOMIC_RELEASE) == 2)
		raw_futex(&qp->posting, FUTEX_WAKE_PRIVATE, 1, NULL);
}

/* NULL, with errno set. */
static inline void *sd_refuse(int error)
{
	errno = error;
	return NULL;
}

/* Waits until the program has acknowledged all events of an object that it took. */
void sd_await_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acknowledged,
		   const uint32_t *taken);

/* ---- the parts of a context's operations ---- */

int sd_poll_cq(struct ibv_cq *cq, int room, struct ibv_wc *wc);
int sd_req_notify_cq(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *sd_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
void sd_cq_add_readers(struct sd_local_cq *cq, uint64_t wc_flags);

struct ibv_srq *sd_create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int sd_get_srq_num(struct ibv_srq *srq, uint32_t *number);
struct ibv_qp *sd_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

int sd_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int sd_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
int sd_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);
void sd_qp_add_builders(struct sd_local_qp *qp);
/* With the lock held: of the posting operations and of the builders. */
bool sd_sq_is_full(const struct sd_local_qp *qp);
bool sd_takes_sends(const struct sd_qp *qp);
int sd_append_inline(const struct sd_qp *qp, struct sd_send *s, const void *p, size_t length);
int sd_take_list(const struct sd_qp *qp, struct sd_send *s, const struct ibv_sge *sge, size_t n);
/* The next slot has been filled. */
void sd_append(struct sd_qp *qp, uint64_t now);

struct ibv_mw *sd_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int sd_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);
int sd_dealloc_mw(struct ibv_mw *mw);
/* What a request to bind a memory window says of it. */
/* To where a datagram goes; there is one port, so its LID leads nowhere else. */
static inline void sd_address(struct sd_send *s, const struct sd_ah *to)
{
	s->dgid = to->attr.grh.dgid;
	s->sgid_index = to->attr.grh.sgid_index;
	s->is_global = to->attr.is_global;
}

void sd_copy_bind(struct sd_send *s, uint32_t rkey, const struct ibv_mw_bind_info *info);

void sd_objects_add_operations(struct verbs_context *verbs);

#endif
