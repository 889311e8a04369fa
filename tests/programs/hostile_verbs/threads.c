/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.c: many queue pairs, threads that are cancelled, ends of threads and programs. */
#include "hostile_verbs/shared.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MANY 200

static void many_queue_pairs(void)
{
	struct ibv_qp *q[MANY];

	for (int i = 0; i < MANY; i++)
		q[i] = new_qp();
	for (uint64_t i = 0; i < MANY; i++) {
		receive(q[i], i, piece(0, 64));
		send_it(q[i], 1000 + i, piece(PAGE, 64), i % 3 ? IBV_SEND_SIGNALED : 0);
	}
	for (int i = 0; i < MANY; i += 2)
		ibv_destroy_qp(q[i]);
	show_completions();
	for (int i = 0; i < MANY; i += 2)
		q[i] = new_qp();
	for (uint64_t i = 0; i < MANY; i++) {
		receive(q[i], i, piece(0, 64));
		send_it(q[i], 1000 + i, piece(PAGE, 64), i % 3 ? IBV_SEND_SIGNALED : 0);
	}
	show_completions();
}

/* One chain, posted by several threads at once. */
static struct ibv_send_wr shared_wr[3];
static struct ibv_sge shared_sge;

static void *post_the_shared_chain(void *q)
{
	struct ibv_send_wr *bad;
	intptr_t failed = 0;

	for (int i = 0; i < 200; i++)
		failed += ibv_post_send(q, shared_wr, &bad) != 0;
	return (void *)failed;
}

static void one_chain_for_all(void)
{
	pthread_t threads[4];
	struct ibv_wc wc[64];
	int n, polled = 0, wrong = 0;
	void *failed;

	/* Queue pairs without a peer complete at once: in the reset state nobody receives. */
	shared_sge = piece(0, 8);
	for (int i = 0; i < 3; i++)
		shared_wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
						    .next = i < 2 ? &shared_wr[i + 1] : NULL,
						    .sg_list = &shared_sge,
						    .num_sge = 1,
						    .opcode = IBV_WR_RDMA_READ,
						    .send_flags = i == 2 ? IBV_SEND_SIGNALED : 0};
	for (int i = 0; i < 3; i++) {
		shared_wr[i].wr.rdma.rkey = 1;
		shared_wr[i].wr.rdma.remote_addr = 8;
	}
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, post_the_shared_chain, new_qp());
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], &failed);
		printf("thread %d: %s\n", i, failed ? "some refused" : "none refused");
	}
	while ((n = ibv_poll_cq(cq, 64, wc)) > 0)
		for (polled += n; n; n--)
			wrong += wc[n - 1].wr_id > 2;
	printf("%d completions: %d wrong\n", polled > 0, wrong);
}

static void unlock(void *mutex)
{
	pthread_mutex_unlock(mutex);
}

static void *wait_for_event(void *unused)
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct ibv_cq *which;
	void *data;

	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, &mutex);
	ibv_req_notify_cq(cq, 0);
	ibv_get_cq_event(channel, &which, &data);
	pthread_cleanup_pop(1);
	return NULL;
}

static void cancelled_in_an_event(void)
{
	pthread_t t;
	void *result;

	pthread_create(&t, NULL, wait_for_event, NULL);
	usleep(50000);
	pthread_cancel(t);
	pthread_join(t, &result);
	printf("cancelled: %d\n", result == PTHREAD_CANCELED);
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	show_completions();
}

static void *poll_until_cancelled(void *unused)
{
	struct ibv_wc wc;

	for (;;) {
		ibv_poll_cq(cq, 1, &wc);
		pthread_testcancel();
	}
	return NULL;
}

static void cancelled_in_a_poll_loop(void)
{
	pthread_t t;
	void *result;

	pthread_create(&t, NULL, poll_until_cancelled, NULL);
	usleep(20000);
	pthread_cancel(t);
	pthread_join(t, &result);
	printf("cancelled: %d\n", result == PTHREAD_CANCELED);
}

static void release_late(void *p)
{
	printf("destructor: dereg %d\n", ibv_dereg_mr(p));
	show_completions();
}

static pthread_key_t key;

static void *leave_a_region(void *unused)
{
	static char bytes[PAGE];

	pthread_setspecific(key, ibv_reg_mr(pd, bytes, PAGE, 0));
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	return NULL;
}

static void verbs_in_a_destructor(void)
{
	pthread_t t;

	pthread_key_create(&key, release_late);
	pthread_create(&t, NULL, leave_a_region, NULL);
	pthread_join(t, NULL);
}

static void verbs_at_exit(void)
{
	atexit(clean_up);
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
}

static void threads_with_the_smallest_stack(void)
{
	pthread_attr_t attr;
	pthread_t t;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, PTHREAD_STACK_MIN);
	for (int i = 0; i < 3; i++) {
		if (pthread_create(&t, &attr, small_stack, NULL))
			printf("no thread\n");
		else
			pthread_join(t, NULL);
	}
}

/* What polls_in_turn() reads between its polls, and other threads write without a lock. */
static volatile int written;
static volatile int over;

static void *write_and_sleep(void *unused)
{
	char *own = map(PAGE);

	while (!over) {
		written++;
		usleep(written % 7 * 30);
		if (written % 16 == 5)
			ibv_dereg_mr(ibv_reg_mr(pd, own, PAGE, ALL));
	}
	return unused;
}

/* More queues than are kept in mind (SR_IDLE_POLLS), polled one after the other until something comes, as libraries with several transports do. */
#define QUEUES 20

static uint64_t poll_in_turn(struct ibv_cq *const *queues, int n, struct ibv_wc *wc)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	uint64_t sum = 0, tsc = 0;
	int found = 0, polls = 0;

	for (int i = 0; i < 500 || found < 8; i++) {
		if (i % 200 == 150) {
			receive(qp, 7, piece(0, 8));
			send_it(qp, 8, piece(64, 8), IBV_SEND_SIGNALED);
		}
		for (int k = 0; k < n; k++, polls++)
			found += ibv_poll_cq(queues[k], 1, wc) * (k + 1);
		for (int k = 0; k < i % 300 - 280; k++, polls++) /* one of them more often */
			found += ibv_poll_cq(queues[i % n], 1, wc) * (k + 1);
		if (i % 53 == 52) {
			pthread_mutex_lock(&lock);
			pthread_mutex_unlock(&lock);
		}
		if (i % 37 == 36)
			__asm__ volatile("rdtsc" : "=a"(tsc) : : "rdx");
		if (i % 90 == 89)
			memory[PAGE] = memory[2 * PAGE] + 1;
		sum = sum * 31 + (uint64_t)(polls + written) + (tsc & 0xff);
	}
	return sum;
}

static void polls_in_turn(void)
{
	struct ibv_cq *queues[QUEUES] = {cq};
	struct ibv_wc wc[2], *shared = (struct ibv_wc *)(memory + 12 * PAGE);
	pthread_t threads[2];

	for (int k = 1; k < QUEUES; k++)
		queues[k] = check(ibv_create_cq(context, 4, NULL, NULL, 0), "ibv_create_cq");
	for (int n = 1; n <= QUEUES; n += n < 4 || n > 10 ? 1 : 3)
		printf("alone, %d: 0x%lx\n", n, poll_in_turn(queues, n, n % 2 ? wc : shared));
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, write_and_sleep, NULL);
	for (int n = 1; n <= QUEUES; n += n < 4 ? 1 : 8)
		printf("beside, %d: 0x%lx\n", n, poll_in_turn(queues, n, n % 2 ? wc : shared));
	over = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("after, 3: 0x%lx\n", poll_in_turn(queues, 3, wc));
	for (int k = 1; k < QUEUES; k++)
		ibv_destroy_cq(queues[k]);
}

/* It begins on a page that is not registered, and ends on one with a flag that this thread polls meanwhile. */
static char *buffer;
static int from_pipe;

static void *wait_for_bytes(void *unused)
{
	return (void *)(intptr_t)read(from_pipe, buffer, PAGE);
}

static void buffer_beside_a_flag(void)
{
	char *pages = map(2 * PAGE), bytes[PAGE];
	volatile uint64_t *flag = (uint64_t *)(pages + 2 * PAGE) - 1;
	struct ibv_mr *flags = ibv_reg_mr(pd, pages + PAGE, PAGE, ALL);
	struct timespec now;
	pthread_t t;
	int ends[2];
	void *n;

	buffer = pages + PAGE / 2;
	if (pipe(ends))
		return;
	from_pipe = ends[0];
	pthread_create(&t, NULL, wait_for_bytes, NULL);
	usleep(20000);
	for (uint64_t round = 1; round <= 20; round++) {
		struct ibv_sge value = piece(0, sizeof(round));
		struct ibv_send_wr wr = {.sg_list = &value, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					 .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)flag, flags->rkey}}, *bad;

		memcpy(memory, &round, sizeof(round));
		ibv_post_send(qp, &wr, &bad);
		while (*flag != round)
			clock_gettime(CLOCK_MONOTONIC, &now);
		show_completions();
	}
	memset(bytes, 'x', sizeof(bytes));
	if (write(ends[1], bytes, sizeof(bytes)) != sizeof(bytes))
		return;
	pthread_join(t, &n);
	printf("read %d: %d, flag %d\n", (int)(intptr_t)n, !memcmp(buffer, bytes, PAGE), (int)*flag);
	ibv_dereg_mr(flags);
}

/* What a program's own locks are made of: a number, and the threads that sleep until it changes. */
static void wait_until(uint32_t *word, uint32_t value)
{
	for (uint32_t now; (now = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value;)
		syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

static void set(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

#define TURNS 60

/* A thread's word, which others set, and the one that it sets. */
struct words {
	uint32_t *mine, *other;
};

static void *answer(void *argument)
{
	const struct words *w = argument;

	for (uint32_t i = 1; i <= TURNS; i++) {
		wait_until(w->mine, i);
		set(w->other, i);
	}
	return NULL;
}

/* The thread sleeps when main() registers what lies beside its word, and when it deregisters it. */
static void take_turns_beside(char *page, uint32_t *mine, uint32_t *other)
{
	const struct words w = {mine, other};
	struct ibv_mr *small = NULL;
	pthread_t t;

	pthread_create(&t, NULL, answer, (void *)&w);
	for (uint32_t i = 1; i <= TURNS; i++) {
		if (i % 10 == 0) {
			usleep(3000);
			small = small ? (ibv_dereg_mr(small), NULL) : ibv_reg_mr(pd, page + 64, 64, ALL);
		}
		if (small) {
			struct ibv_sge value = piece(0, sizeof(i));
			struct ibv_send_wr wr = {.sg_list = &value, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
						 .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {(uintptr_t)page + 64, small->rkey}}, *bad;

			memcpy(memory, &i, sizeof(i));
			ibv_post_send(qp, &wr, &bad);
			while (*(volatile uint32_t *)(page + 64) != i)
				;
			show_completions();
		}
		set(mine, i);
		wait_until(other, i);
	}
	pthread_join(t, NULL);
	printf("%u turns\n", *other);
}

static void futexes_beside_a_region(void)
{
	char *pages = map(4 * PAGE);

	/* The last word of a page, behind which nothing is registered; and two in its middle. */
	alarm(30);
	take_turns_beside(pages, (uint32_t *)(pages + PAGE) - 1, (uint32_t *)(pages + PAGE) - 2);
	take_turns_beside(pages + 2 * PAGE, (uint32_t *)(pages + 2 * PAGE + 512), (uint32_t *)(pages + 2 * PAGE + 516));
}

static void *do_nothing(void *unused)
{
	return unused;
}

/* What the kernel fills in lies beside registered memory, and what follows in the call is 0. */
static void results_beside_a_region(void)
{
	char *page = map(PAGE);
	struct ibv_mr *small = ibv_reg_mr(pd, page, 64, ALL);
	int *ends = (int *)(page + 128), *status = (int *)(page + 256);
	struct stat *st = (struct stat *)(page + 512);
	struct sockaddr_un *name = (struct sockaddr_un *)(page + 1024);
	socklen_t *size = (socklen_t *)(page + 2048);
	pthread_t t;
	pid_t child;
	int s = socket(AF_UNIX, SOCK_STREAM, 0), c = socket(AF_UNIX, SOCK_STREAM, 0), a;

	pthread_create(&t, NULL, do_nothing, NULL);
	pthread_join(t, NULL);
	printf("pipe2 %d", pipe2(ends, 0));
	printf(" with ends %d\n", ends[0] > 2 && ends[1] > ends[0]);
	printf("fstatat %d", fstatat(AT_FDCWD, "/", st, 0));
	printf(" of a directory %d\n", S_ISDIR(st->st_mode));
	printf("by number %d", (int)syscall(SYS_newfstatat, AT_FDCWD, "/", st, 0));
	printf(" of a directory %d\n", S_ISDIR(st->st_mode));
	child = fork();
	if (!child)
		_exit(5);
	printf("waitpid %d", waitpid(child, status, 0) == child);
	printf(" with %d\n", WEXITSTATUS(*status));
	/* A name that the kernel chooses, in no directory. */
	*name = (struct sockaddr_un){.sun_family = AF_UNIX};
	*size = sizeof(*name);
	bind(s, (struct sockaddr *)name, sizeof(sa_family_t));
	getsockname(s, (struct sockaddr *)name, size);
	listen(s, 1);
	printf("connect %d\n", connect(c, (struct sockaddr *)name, *size));
	*size = sizeof(*name);
	a = accept4(s, (struct sockaddr *)name, size, 0);
	printf("accept4 %d, a name of %u bytes\n", a > 2, *size);
	ibv_dereg_mr(small);
}

/* Keys, and the objects of a region, are taken by one thread as soon as another one has given them back. */
static void *register_and_write(void *unused)
{
	char *p = map(2 * PAGE);
	struct ibv_cq *own = ibv_create_cq(context, DEPTH, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {.send_cq = own, .recv_cq = own, .cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *q = ibv_create_qp(pd, &init);
	struct ibv_wc wc;

	CHECK(q);
	connect_qp(q);
	for (int i = 0; i < 60; i++) {
		struct ibv_mr *m = ibv_reg_mr(pd, p, 2 * PAGE, ALL);
		struct ibv_sge from = {(uintptr_t)p, 16, m->lkey};
		struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = &from, .num_sge = 1}, *bad;

		wr.wr.rdma.remote_addr = (uintptr_t)p + PAGE;
		wr.wr.rdma.rkey = m->rkey;
		p[0] = (char)i;
		CHECK(!ibv_post_send(q, &wr, &bad));
		while (!ibv_poll_cq(own, 1, &wc))
			;
		CHECK(wc.status == IBV_WC_SUCCESS && p[PAGE] == (char)i && !ibv_dereg_mr(m));
	}
	CHECK(!ibv_destroy_qp(q) && !ibv_destroy_cq(own));
	return unused;
}

static void registrations_by_threads(void)
{
	pthread_t t[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, register_and_write, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	puts("registered");
}

const struct hostile_case threads_cases[] = {
    {"futexes-beside-a-region", futexes_beside_a_region},
    {"results-beside-a-region", results_beside_a_region},
    {"buffer-beside-a-flag", buffer_beside_a_flag},
    {"many-queue-pairs", many_queue_pairs},
    {"one-chain-for-all", one_chain_for_all},
    {"cancelled-in-an-event", cancelled_in_an_event},
    {"cancelled-in-a-poll-loop", cancelled_in_a_poll_loop},
    {"verbs-in-a-destructor", verbs_in_a_destructor},
    {"verbs-at-exit", verbs_at_exit},
    {"polls-in-turn", polls_in_turn},
    {"smallest-stack", threads_with_the_smallest_stack},
    {"registrations-by-threads", registrations_by_threads},
    {0},
};
