/* SPDX-License-Identifier: BSD-2-Clause */
/* shared.h: a device's objects that all cases of hostile_verbs use, and what they do with them. */
#ifndef PROGRAMS_HOSTILE_VERBS_SHARED_H
#define PROGRAMS_HOSTILE_VERBS_SHARED_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "check.h"
#include "check.h"
#include "verbs/loopback_qp.h"

#define PAGE  4096
#define BYTES (16 * PAGE)
#define DEPTH 64
#define ALL                                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

extern struct ibv_context *context;
extern struct ibv_pd *pd;
extern struct ibv_comp_channel *channel;
extern struct ibv_cq *cq;
/* Connected to itself: what it sends it receives. */
extern struct ibv_qp *qp;
extern char *memory;
extern struct ibv_mr *mr;

void open_all(void);

char *map(size_t n);
void to_state(struct ibv_qp *q, enum ibv_qp_state state);
void connect_qp(struct ibv_qp *q);
struct ibv_qp *new_qp(void);
struct ibv_sge piece(size_t at, size_t n);
int receive(struct ibv_qp *q, uint64_t id, struct ibv_sge sge);
int send_it(struct ibv_qp *q, uint64_t id, struct ibv_sge sge, unsigned int flags);
void show_completions(void);

/* At exit: ends the objects, and prints what that said. */
void clean_up(void);

/* A thread that uses some of its stack, and sends and receives. */
void *small_stack(void *unused);

/* The cases of a subject; the last one has no name. */
struct hostile_case {
	const char *name;
	void (*run)(void);
};
extern const struct hostile_case requests_cases[], threads_cases[], signals_cases[],
    processes_cases[], exposed_cases[], stacks_cases[];

#endif
