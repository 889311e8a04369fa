/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * polls.c: polls that find nothing, and what comes between them. A recording only counts such
 * polls, so each case would go another way in the replay if one were counted wrongly. What
 * differs from run to run is printed as a "time".
 */
#include "hostile_verbs/shared.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t ticks;

static __attribute__((noinline)) int poll_here(struct ibv_cq *which)
{
	struct ibv_wc wc;

	return ibv_poll_cq(which, 1, &wc);
}

static __attribute__((noinline)) int poll_there(struct ibv_cq *which, int most)
{
	struct ibv_wc wc[4];

	return ibv_poll_cq(which, most, wc);
}

static struct ibv_cq *new_cq(void)
{
	return check(ibv_create_cq(context, 64, NULL, NULL, 0), "ibv_create_cq");
}

static void message(uint64_t id)
{
	receive(qp, id, piece(0, 64));
	send_it(qp, id + 1, piece(PAGE, 64), IBV_SEND_SIGNALED);
}

static void count_tick(int signal)
{
	ticks++;
}

/* The handler's own polls are those of another site, and in between the program's. */
static void poll_in_handler(int signal)
{
	ticks++;
	for (int i = 0; i < 3; i++)
		poll_here(cq);
	if (ticks % 2)
		message(100u + (uint64_t)ticks);
	errno = EINTR;
}

/* How often it polls is decided by when the signal comes. */
static void idle_polls_until_a_signal(void)
{
	void (*handlers[])(int) = {count_tick, poll_in_handler};
	struct itimerval soon = {.it_value.tv_usec = 1500};
	struct ibv_wc wc;

	for (int round = 0; round < 24; round++) {
		int before = ticks, found = 0;
		long n = 0;

		signal(SIGALRM, handlers[round % 2]);
		setitimer(ITIMER_REAL, &soon, NULL);
		for (; ticks == before || n % 7; n++)
			found += ibv_poll_cq(cq, 1, &wc);
		printf("time %ld\n", n * 100 + found);
		show_completions();
	}
}

/* Two queues, three sites and three lengths in turn, with a message now and then. */
static void idle_polls_of_two_queues(void)
{
	struct ibv_cq *queues[] = {cq, new_cq()};
	uint32_t chance = 7;
	long found = 0;

	for (int i = 0; i < 20000; i++) {
		struct ibv_cq *which;

		chance = chance * 1103515245 + 12345;
		which = queues[chance >> 30 & 1];
		if (chance >> 16 & 1)
			found += 3 * poll_here(which);
		else if (chance >> 17 & 3)
			found += 5 * poll_there(which, 1 + (chance >> 20 & 1));
		else
			for (int n = 0; n < 5; n++)
				found += 7 * poll_here(which);
		if (!(chance >> 22 & 63))
			message((uint64_t)i);
	}
	printf("%ld\n", found);
	printf("destroy %d\n", ibv_destroy_cq(queues[1]));
}

/* A queue at an address that another one had. */
static void idle_polls_of_successive_queues(void)
{
	int found = 0;

	for (int i = 0; i < 20; i++) {
		struct ibv_cq *one = new_cq();

		for (int n = 0; n < 10; n++)
			found += poll_here(one);
		found += ibv_destroy_cq(one);
	}
	/* A queue pair that leaves completions behind it. */
	for (int i = 0; i < 5; i++) {
		struct ibv_qp *q = new_qp();

		for (int n = 0; n < 3; n++)
			found += poll_here(cq);
		receive(q, 1, piece(0, 64));
		send_it(q, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
		ibv_destroy_qp(q);
		for (int n = 0; n < 5; n++)
			found += 10 * poll_here(cq);
	}
	printf("%d\n", found);
}

/* Memory that peers write, stored to and loaded between the polls. */
static void idle_polls_beside_an_exposed_region(void)
{
	volatile unsigned char *p = (void *)map(2 * PAGE);
	struct ibv_mr *region = ibv_reg_mr(pd, (void *)p, 2 * PAGE, ALL);
	struct ibv_sge sge = piece(0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.rkey = region->rkey}},
			   *bad;
	unsigned int sum = 0;

	for (int i = 0; i < 200; i++) {
		for (int n = 0; n < i % 5; n++)
			sum += (unsigned int)poll_here(cq);
		p[i] = (unsigned char)i;
		sum += (unsigned int)poll_here(cq);
		memory[0] = (char)i;
		wr.wr.rdma.remote_addr = (uintptr_t)p + PAGE;
		ibv_post_send(qp, &wr, &bad);
		while (poll_here(cq) == 0)
			;
		sum = sum * 31 + p[PAGE] + p[i / 2];
		for (int n = 0; n < 3; n++) {
			sum += (unsigned int)poll_here(cq);
			sum += p[PAGE + n];
		}
	}
	printf("%u, dereg %d\n", sum, ibv_dereg_mr(region));
}

static void idle_polls_of_an_extended_queue(void)
{
	struct ibv_cq_init_attr_ex init = {.cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN};
	struct ibv_cq_ex *ex = check(ibv_create_cq_ex(context, &init), "ibv_create_cq_ex");
	struct ibv_qp_init_attr attr = {.send_cq = ibv_cq_ex_to_cq(ex),
					.recv_cq = ibv_cq_ex_to_cq(ex),
					.cap = {DEPTH, DEPTH, 4, 4, 64},
					.qp_type = IBV_QPT_RC};
	struct ibv_poll_cq_attr none = {};
	struct ibv_qp *q = check(ibv_create_qp(pd, &attr), "ibv_create_qp");

	connect_qp(q);
	for (uint64_t i = 0; i < 40; i++) {
		for (uint64_t n = 0; n < i % 4; n++)
			if (ibv_start_poll(ex, &none) != ENOENT)
				printf("a completion from nowhere\n");
		for (uint64_t n = 0; n < i % 3; n++)
			poll_here(ibv_cq_ex_to_cq(ex));
		receive(q, i, piece(0, 64));
		send_it(q, i + 1000, piece(PAGE, 8 + (uint32_t)i), IBV_SEND_SIGNALED);
		/* The same site finds nothing, and something. */
		for (int left = 2; left;) {
			if (ibv_start_poll(ex, &none))
				continue;
			do {
				printf("%llu %u\n", (unsigned long long)ex->wr_id,
				       ibv_wc_read_byte_len(ex));
				left--;
			} while (!ibv_next_poll(ex));
			ibv_end_poll(ex);
		}
	}
	printf("%d %d\n", ibv_destroy_qp(q), ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
}

static atomic_int stop;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long shared_polls;

/* Polls until another thread says so, by a lock: how often is decided by the scheduler. */
static void *poll_until_told(void *queue)
{
	long n = 0;
	int told = 0;

	while (!told) {
		for (int i = 0; i < 50; i++, n++)
			poll_here(queue);
		pthread_mutex_lock(&mutex);
		told = stop;
		shared_polls += 50;
		pthread_mutex_unlock(&mutex);
	}
	poll_here(queue);
	return (void *)(intptr_t)n;
}

static void idle_polls_in_threads(void)
{
	pthread_t threads[3];
	void *n;

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, poll_until_told, i ? new_cq() : cq);
	for (int i = 0; i < 200; i++) {
		message((uint64_t)i);
		for (int k = 0; k < 20; k++)
			poll_there(cq, 2);
	}
	pthread_mutex_lock(&mutex);
	stop = 1;
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], &n);
		printf("time %ld\n", (long)(intptr_t)n);
	}
	printf("time %ld\n", shared_polls);
	while (poll_there(cq, 4))
		;
}

/* The last thing that a thread does, and the process; and what its child does. */
static void idle_polls_at_the_end(void)
{
	pthread_t thread;
	int status = 0;
	pid_t child;

	stop = 1;
	for (int i = 0; i < 3; i++) {
		pthread_create(&thread, NULL, poll_until_told, cq);
		pthread_join(thread, NULL);
	}
	for (int i = 0; i < 10; i++)
		poll_here(cq);
	child = fork();
	if (!child) {
		for (int i = 0; i < 10; i++)
			if (poll_here(cq))
				_exit(2);
		_exit(5);
	}
	waitpid(child, &status, 0);
	printf("child %d\n", WEXITSTATUS(status));
	for (int i = 0; i < 10; i++)
		poll_here(cq);
}

const struct hostile_case polls_cases[] = {
    {"idle-polls-until-a-signal", idle_polls_until_a_signal},
    {"idle-polls-of-two-queues", idle_polls_of_two_queues},
    {"idle-polls-of-successive-queues", idle_polls_of_successive_queues},
    {"idle-polls-beside-an-exposed-region", idle_polls_beside_an_exposed_region},
    {"idle-polls-of-an-extended-queue", idle_polls_of_an_extended_queue},
    {"idle-polls-in-threads", idle_polls_in_threads},
    {"idle-polls-at-the-end", idle_polls_at_the_end},
    {0},
};
