/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exposed_page.c: all that a program has, on the two pages in which a few bytes are a
 * exposed region: the requests it posts, completions, what its threads wait for, what the
 * kernel fills, and what they compute with, while a device writes there.
 *
 *   exposed_page SEED ROUNDS THREADS [OPERATIONS]
 *
 * Each thread has a connection to itself.  Prints a number per thread that stands for
 * all that it saw, and how often it looked where it waited.  OPERATIONS: digits, those
 * to take (default: all).
 */
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "check.h"

#define PAGE    4096
#define ROOM    (2 * PAGE)
#define THREADS 4
#define OWN     (2 * PAGE) /* of each thread */
#define REMOTE  (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

struct counters {
	volatile uint64_t n[4];
	volatile uint32_t w;
	volatile uint16_t h;
	volatile uint8_t b;
	volatile double d;
	volatile float f;
};

/* All of it is somewhere on the pages. */
struct own {
	struct ibv_send_wr *wr;
	struct ibv_recv_wr *rwr;
	struct ibv_sge *sge;
	struct ibv_wc *wc;
	sem_t *sem;
	struct timespec *ts;
	struct pollfd *pfd;
	struct counters *c;
	char *src, *sink, *kernel, *win;
	char *large; /* pages that no other thread has */
};

struct thread {
	pthread_t id;
	int number;
	uint64_t rnd, saw;
	struct own o;
	struct ibv_cq *cq;
	struct ibv_qp *qp[2];
	struct ibv_mr *src, *sink, *win, *large;
	int pair[2];
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static char *room;
static int threads, rounds;
static const char *operations = "0123456789abcd";
static struct thread all[THREADS];
static pthread_mutex_t *mutex;
static pthread_cond_t *cond;
static volatile uint64_t *shared;

static uint32_t chance(uint64_t *state, uint32_t below)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*state >> 33) % below;
}

static void see(struct thread *t, uint64_t v)
{
	t->saw = (t->saw ^ v) * 0x100000001b3ull;
}

static void see_bytes(struct thread *t, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		see(t, (uint8_t)p[i]);
}

/* ------------------------------------------------------------------ places */

/* A free place of so many bytes, of chance: pages are full of neighbours, and some things lie on both. */
static void *place(uint64_t *rnd, size_t n, size_t align)
{
	static char used[ROOM] = {[0 ... 7] = 1, [PAGE ... PAGE + 7] = 1};
	size_t at;

	do {
		at = chance(rnd, (uint32_t)(ROOM - n)) / align * align;
	} while (memchr(used + at, 1, n));
	memset(used + at, 1, n);
	return room + at;
}

static void place_own(struct own *o, uint64_t *rnd)
{
	o->win = place(rnd, 64, 8);
	o->wr = place(rnd, sizeof(*o->wr), 8);
	o->rwr = place(rnd, sizeof(*o->rwr), 8);
	o->sge = place(rnd, 2 * sizeof(*o->sge), 8);
	o->wc = place(rnd, 2 * sizeof(*o->wc), 8);
	o->sem = place(rnd, sizeof(*o->sem), 8);
	o->ts = place(rnd, sizeof(*o->ts), 8);
	o->pfd = place(rnd, sizeof(*o->pfd), 8);
	o->c = place(rnd, sizeof(*o->c), 8);
	o->src = place(rnd, 64, 1);
	o->sink = place(rnd, 64, 8);
	o->kernel = place(rnd, 100, 1);
	o->large = check(aligned_alloc(PAGE, OWN), "memory");
	memset(o->large, 0, OWN);
}

/* -------------------------------------------------------------- connection */

static void connect_to(struct ibv_qp *qp, uint32_t peer)
{
	struct ibv_qp_attr a = {
	    .qp_state = IBV_QPS_INIT,
	    .port_num = 1,
	    .qp_access_flags = REMOTE,
	};
	int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	if (ibv_modify_qp(qp, &a, init))
		check(NULL, "INIT");
	a = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTR,
	    .path_mtu = IBV_MTU_1024,
	    .dest_qp_num = peer,
	    .max_dest_rd_atomic = 1,
	    .min_rnr_timer = 12,
	    .ah_attr = {.port_num = 1},
	};
	if (ibv_modify_qp(qp, &a,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		check(NULL, "RTR");
	a = (struct ibv_qp_attr){
	    .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	if (ibv_modify_qp(qp, &a,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
			      IBV_QP_MAX_QP_RD_ATOMIC))
		check(NULL, "RTS");
}

static void set_up(struct thread *t)
{
	struct ibv_qp_init_attr init = {
	    .qp_type = IBV_QPT_RC,
	    .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 1, .max_inline_data = 64},
	};

	t->cq = check(ibv_create_cq(context, 16, NULL, NULL, 0), "ibv_create_cq");
	init.send_cq = init.recv_cq = t->cq;
	for (int i = 0; i < 2; i++)
		t->qp[i] = check(ibv_create_qp(pd, &init), "ibv_create_qp");
	for (int i = 0; i < 2; i++)
		connect_to(t->qp[i], t->qp[!i]->qp_num);
	t->src = check(ibv_reg_mr(pd, t->o.src, 64, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	t->win = check(ibv_reg_mr(pd, t->o.win, 64, REMOTE), "ibv_reg_mr");
	t->sink = check(ibv_reg_mr(pd, t->o.sink, 64, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	t->large = check(ibv_reg_mr(pd, t->o.large, OWN, REMOTE), "ibv_reg_mr");
	if (sem_init(t->o.sem, 0, 0) || socketpair(AF_UNIX, SOCK_STREAM, 0, t->pair))
		check(NULL, "set_up");
}

/* -------------------------------------------------------------- operations */

static void fill(struct thread *t, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		t->o.src[i] = (char)chance(&t->rnd, 256);
}

static void complete(struct thread *t, int n)
{
	while (n) {
		int got = ibv_poll_cq(t->cq, 2, t->o.wc);

		for (int i = 0; i < got; i++) {
			see(t, t->o.wc[i].wr_id);
			see(t, t->o.wc[i].status);
			see(t, t->o.wc[i].byte_len);
		}
		n -= got;
	}
}

static void post(struct thread *t, enum ibv_wr_opcode opcode, char *at, uint32_t n, struct ibv_mr *mr, unsigned int flags,
		 char *to)
{
	struct own *o = &t->o;
	struct ibv_send_wr *bad;

	o->sge[0] = (struct ibv_sge){.addr = (uintptr_t)at, .length = n, .lkey = mr->lkey};
	memset(o->wr, 0, sizeof(*o->wr));
	o->wr->wr_id = t->rnd;
	o->wr->sg_list = o->sge;
	o->wr->num_sge = 1;
	o->wr->opcode = opcode;
	o->wr->send_flags = flags;
	if (opcode == IBV_WR_RDMA_WRITE) {
		o->wr->wr.rdma.remote_addr = (uintptr_t)to;
		o->wr->wr.rdma.rkey = to == o->win ? t->win->rkey : t->large->rkey;
	} else if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		o->wr->wr.atomic.remote_addr = (uintptr_t)o->win;
		o->wr->wr.atomic.rkey = t->win->rkey;
		o->wr->wr.atomic.compare_add = 5;
	}
	if (ibv_post_send(t->qp[0], o->wr, &bad))
		check(NULL, "ibv_post_send");
}

static void send_to_self(struct thread *t, unsigned int flags)
{
	struct own *o = &t->o;
	uint32_t n = 1 + chance(&t->rnd, 64);
	struct ibv_recv_wr *bad;

	o->sge[1] = (struct ibv_sge){.addr = (uintptr_t)o->sink, .length = 64, .lkey = t->sink->lkey};
	*o->rwr = (struct ibv_recv_wr){.wr_id = t->rnd, .sg_list = &o->sge[1], .num_sge = 1};
	if (ibv_post_recv(t->qp[1], o->rwr, &bad))
		check(NULL, "ibv_post_recv");
	fill(t, n);
	post(t, IBV_WR_SEND, o->src, n, t->src, flags | IBV_SEND_SIGNALED, NULL);
	complete(t, 2);
	see_bytes(t, o->sink, 64);
}

/* Waits with no call for what the device writes. */
static void write_to_self(struct thread *t, unsigned int flags)
{
	volatile char *last = t->o.win + 63;
	char before = *last;
	uint64_t looks = 0;

	fill(t, 64);
	t->o.src[63] = (char)(before + 1);
	post(t, IBV_WR_RDMA_WRITE, t->o.src, 64, t->src, flags | IBV_SEND_SIGNALED, t->o.win);
	while (*last == before)
		looks++;
	see(t, looks);
	see_bytes(t, t->o.win, 64);
	complete(t, 1);
}

/* The same on pages that are an exposed region as a whole, which are frozen for the loads. */
static void write_and_read(struct thread *t)
{
	struct own *o = &t->o;
	volatile uint64_t *word = (void *)o->large;
	uint64_t sum = 0;
	uint32_t at[2];

	for (int i = 0; i < 2; i++) {
		fill(t, 64);
		at[i] = chance(&t->rnd, PAGE / 64);
		post(t, IBV_WR_RDMA_WRITE, o->src, 64, t->src, IBV_SEND_SIGNALED, o->large + at[i] * 64);
	}
	/* Around what is being written. */
	for (size_t i = 0; i < OWN / 8; i += 1 + chance(&t->rnd, 20))
		if (i / 8 != at[0] && i / 8 != at[1])
			sum = sum * 31 + word[i];
	see(t, sum);
	complete(t, 2);
	for (size_t i = 0; i < OWN / 8; i += 7)
		sum = sum * 31 + word[i];
	see(t, sum);
}

/*
 * Fills the second of them, which is live then, and looks at the first.  (The stand-in's
 * device, which knows memory by its address, would not find a live page.)
 */
static void fill_and_read(struct thread *t)
{
	volatile uint64_t *word = (void *)t->o.large;
	uint64_t sum = 0;
	uint32_t n = 5 + chance(&t->rnd, 60);

	fill(t, 64);
	post(t, IBV_WR_RDMA_WRITE, t->o.src, 64, t->src, IBV_SEND_SIGNALED,
	     t->o.large + (PAGE / 64 - 1 - chance(&t->rnd, PAGE / 128)) * 64);
	for (uint32_t i = 0; i < n; i++)
		word[PAGE / 8 + i] += i * n;
	sum = word[chance(&t->rnd, PAGE / 16)];
	for (uint32_t i = 0; i < n; i++)
		sum = sum * 31 + word[PAGE / 8 + i] + word[i];
	for (uint32_t i = 0; i < n; i++)
		word[PAGE / 8 + i] = sum;
	see(t, sum);
	complete(t, 1);
}

static void ask_kernel(struct thread *t)
{
	uint32_t n = 1 + chance(&t->rnd, 100);
	struct own *o = &t->o;

	for (uint32_t i = 0; i < n; i++)
		o->kernel[i] = (char)chance(&t->rnd, 256);
	if (write(t->pair[0], o->kernel, n) != (ssize_t)n)
		check(NULL, "write");
	memset(o->kernel, 0, 100);
	*o->pfd = (struct pollfd){.fd = t->pair[1], .events = POLLIN};
	see(t, (uint64_t)poll(o->pfd, 1, 1000));
	see(t, (uint64_t)o->pfd->revents);
	see(t, (uint64_t)read(t->pair[1], o->kernel, 100));
	see_bytes(t, o->kernel, 100);
	clock_gettime(CLOCK_MONOTONIC, o->ts);
	see(t, (uint64_t)o->ts->tv_nsec);
	*o->ts = (struct timespec){.tv_nsec = 1000};
	nanosleep(o->ts, NULL);
}

static void compute(struct thread *t)
{
	struct counters *c = t->o.c;
	uint64_t sum = 0;

	for (int i = 0; i < 4; i++) {
		c->n[i] += chance(&t->rnd, 1000);
		c->n[i] ^= c->n[(i + 1) % 4] << 3;
		sum += c->n[i] * 3;
	}
	c->w = (uint32_t)sum;
	c->w >>= 2;
	c->h = (uint16_t)(c->h + c->w);
	c->b = c->h > 1000;
	c->b |= 2;
	c->d = c->d * 0.5 + (double)c->w;
	c->f += (float)c->d;
	see(t, sum + c->w + c->h + c->b + (uint64_t)c->d + (uint64_t)(c->f > 1));
	memcpy(t->o.kernel, t->o.win, 40);
	memmove(t->o.kernel + 10, t->o.kernel, 60);
	see_bytes(t, t->o.kernel, 100);
}

static void take_turns(struct thread *t)
{
	pthread_mutex_lock(mutex);
	see(t, ++*shared);
	if (*shared % 3 == 0)
		pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
	sem_post(all[(t->number + 1) % threads].o.sem);
	while (sem_wait(t->o.sem))
		;
}

static void fetch(struct thread *t)
{
	post(t, IBV_WR_ATOMIC_FETCH_AND_ADD, t->o.sink, 8, t->sink, IBV_SEND_SIGNALED, NULL);
	complete(t, 1);
	see_bytes(t, t->o.sink, 8);
	see_bytes(t, t->o.win, 8);
}

static void register_again(struct thread *t)
{
	bool win = chance(&t->rnd, 2);
	struct ibv_mr **mr = win ? &t->win : &t->sink;
	char *p = win ? t->o.win : t->o.sink;

	ibv_dereg_mr(*mr);
	p[0] = (char)t->rnd;
	*mr = check(ibv_reg_mr(pd, p, 64, win ? REMOTE : IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
}

static void *run(void *argument)
{
	struct thread *t = argument;
	size_t n = strlen(operations);

	for (int i = 0; i < rounds; i++) {
		take_turns(t);
		switch (operations[chance(&t->rnd, (uint32_t)n)]) {
		case '0':
			send_to_self(t, 0);
			break;
		case '1':
			send_to_self(t, IBV_SEND_INLINE);
			break;
		case '2':
			write_to_self(t, 0);
			break;
		case '3':
			write_to_self(t, IBV_SEND_INLINE);
			break;
		case '4':
			ask_kernel(t);
			break;
		case '5':
			fetch(t);
			break;
		case 'a':
		case 'b':
			write_and_read(t);
			break;
		case 'c':
		case 'd':
			fill_and_read(t);
			break;
		case '6':
			register_again(t);
			break;
		default:
			compute(t);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	uint64_t rnd;

	if (argc < 4)
		return 2;
	rnd = strtoull(argv[1], NULL, 0);
	rounds = atoi(argv[2]);
	threads = atoi(argv[3]);
	if (argc > 4)
		operations = argv[4];
	context = check(list && list[0] ? ibv_open_device(list[0]) : NULL, "no device");
	pd = check(ibv_alloc_pd(context), "ibv_alloc_pd");
	room = check(aligned_alloc(PAGE, ROOM), "memory");
	memset(room, 0, ROOM);
	mutex = place(&rnd, sizeof(*mutex), 8);
	cond = place(&rnd, sizeof(*cond), 8);
	shared = place(&rnd, sizeof(*shared), 8);
	/* For good: the stand-in's device knows memory by its address, which it then keeps. */
	for (int i = 0; i < 2; i++)
		check(ibv_reg_mr(pd, room + i * PAGE, 8, REMOTE), "ibv_reg_mr");
	pthread_mutex_init(mutex, NULL);
	pthread_cond_init(cond, NULL);
	for (int i = 0; i < threads; i++) {
		struct thread *t = &all[i];

		t->number = i;
		t->rnd = rnd + (uint64_t)i * 77;
		place_own(&t->o, &rnd);
		set_up(t);
	}
	for (int i = 1; i < threads; i++)
		if (pthread_create(&all[i].id, NULL, run, &all[i]))
			check(NULL, "pthread_create");
	run(&all[0]);
	for (int i = 1; i < threads; i++)
		pthread_join(all[i].id, NULL);
	for (int i = 0; i < threads; i++)
		printf("%016llx\n", (unsigned long long)all[i].saw);
	return 0;
}
