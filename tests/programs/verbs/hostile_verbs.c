/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hostile_verbs.c: what programs do with verbs that a recorder trips over, a case per
 * argument, on the stand-in for libibverbs.  Each prints the same bare and recorded, and
 * again in its replay.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "check.h"
#include "loopback_qp.h"

#define PAGE  4096
#define BYTES (16 * PAGE)
#define DEPTH 64
#define ALL                                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
/* Connected to itself: what it sends it receives. */
static struct ibv_qp *qp;
static char *memory;
static struct ibv_mr *mr;

static char *map(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return check(p == MAP_FAILED ? NULL : p, "mmap");
}

static void to_state(struct ibv_qp *q, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = loopback_attr(state, q->qp_num, ALL);

	if (ibv_modify_qp(q, &attr, loopback_mask(state)))
		printf("modify_qp fails\n");
}

static void connect_qp(struct ibv_qp *q)
{
	to_state(q, IBV_QPS_INIT);
	to_state(q, IBV_QPS_RTR);
	to_state(q, IBV_QPS_RTS);
}

static struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq, .recv_cq = cq, .cap = {DEPTH, DEPTH, 4, 4, 64}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *q = check(ibv_create_qp(pd, &attr), "ibv_create_qp");

	connect_qp(q);
	return q;
}

static void open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = check(ibv_open_device(list[0]), "ibv_open_device");
	ibv_free_device_list(list);
	pd = check(ibv_alloc_pd(context), "ibv_alloc_pd");
	channel = check(ibv_create_comp_channel(context), "ibv_create_comp_channel");
	cq = check(ibv_create_cq(context, 4096, NULL, channel, 0), "ibv_create_cq");
	memory = map(BYTES);
	mr = check(ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	qp = new_qp();
}

static struct ibv_sge piece(size_t at, size_t n)
{
	return (struct ibv_sge){(uintptr_t)memory + at, (uint32_t)n, mr->lkey};
}

static int receive(struct ibv_qp *q, uint64_t id, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(q, &wr, &bad);
}

static int send_it(struct ibv_qp *q, uint64_t id, struct ibv_sge sge, unsigned int flags)
{
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = flags},
			   *bad;

	return ibv_post_send(q, &wr, &bad);
}

static void show_completions(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		printf("wc %llu %s op %d\n", (unsigned long long)wc.wr_id,
		       ibv_wc_status_str(wc.status), wc.opcode);
}

/* ---------------------------------------------------------------- requests */

static int send_list(struct ibv_sge *list, int n, unsigned int flags, struct ibv_send_wr **bad)
{
	static struct ibv_send_wr wr;

	wr = (struct ibv_send_wr){
	    .wr_id = 1, .sg_list = list, .num_sge = n, .opcode = IBV_WR_SEND, .send_flags = flags};
	*bad = NULL;
	return *bad == &wr ? -1 : ibv_post_send(qp, &wr, bad);
}

/* A provider refuses a list that is too long before it looks at it. */
static void lists_that_are_too_long(void)
{
	char *two = map(2 * PAGE);
	struct ibv_sge *list = (struct ibv_sge *)(two + PAGE) - 1;
	struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = list}, *bad_recv;
	static const int lengths[] = {5, 100000, INT_MAX};
	struct ibv_send_wr *bad;

	mprotect(two + PAGE, PAGE, PROT_NONE);
	*list = piece(0, 8);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		recv.num_sge = lengths[i];
		printf("recv %d:", ibv_post_recv(qp, &recv, &bad_recv));
		printf(" %d", bad_recv == &recv);
		printf(" send %d", send_list(list, lengths[i], 0, &bad));
		printf(" inline %d\n", send_list(list, lengths[i], IBV_SEND_INLINE, &bad));
	}
	show_completions();
}

/* Inline data is refused by its length. */
static void inline_data_that_is_too_long(void)
{
	char *two = map(2 * PAGE);
	struct ibv_sge list = {(uintptr_t)two + PAGE - 8, 100000, 0};
	struct ibv_send_wr *bad;

	mprotect(two + PAGE, PAGE, PROT_NONE);
	printf("inline: %d\n", send_list(&list, 1, IBV_SEND_INLINE, &bad));
	show_completions();
}

/* Requests in memory that cannot be written, and that one post after the other uses. */
static void requests_in_constant_memory(void)
{
	struct ibv_send_wr *wr = (void *)map(PAGE), *bad;
	struct ibv_wc wc;
	struct ibv_sge *sge = (void *)(wr + 4);
	struct ibv_recv_wr *recv = (void *)(sge + 1), *bad_recv;

	*sge = piece(0, 8);
	for (int i = 0; i < 4; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = (uintptr_t)&wr[i],
					     .next = i < 3 ? &wr[i + 1] : NULL,
					     .sg_list = sge,
					     .num_sge = i == 2 ? 5 : 1,
					     .opcode = IBV_WR_SEND,
					     .send_flags = IBV_SEND_SIGNALED};
	*recv = (struct ibv_recv_wr){.wr_id = (uintptr_t)recv, .sg_list = sge, .num_sge = 1};
	mprotect(wr, PAGE, PROT_READ);
	for (int i = 0; i < 2; i++) {
		for (int n = 0; n < 4; n++)
			printf("recv %d ", ibv_post_recv(qp, recv, &bad_recv));
		printf("send %d", ibv_post_send(qp, wr, &bad));
		printf(" bad %td\n", bad - wr);
	}
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		printf("wc %lld\n", (long long)(wc.wr_id - (uintptr_t)wr));
}

static void odd_polls(void)
{
	struct ibv_wc wc[200];

	for (uint64_t i = 0; i < 20; i++)
		if (receive(qp, i, piece(0, 64)) ||
		    send_it(qp, 100 + i, piece(PAGE, 64), IBV_SEND_SIGNALED))
			printf("post fails\n");
	printf("none %d", ibv_poll_cq(cq, 0, wc));
	printf(" less %d", ibv_poll_cq(cq, -1, wc));
	printf(" one %d", ibv_poll_cq(cq, 1, wc));
	printf(" many %d", ibv_poll_cq(cq, 200, wc));
	printf(" none %d\n", ibv_poll_cq(cq, 200, NULL));
}

/* What was received was unmapped before it is polled. */
static void memory_that_is_gone(void)
{
	char *other = map(PAGE);
	struct ibv_mr *other_mr = ibv_reg_mr(pd, other, PAGE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)other, 600, other_mr->lkey}, small = sge;

	small.length = 16;
	receive(qp, 1, sge);
	receive(qp, 2, small);
	send_it(qp, 3, piece(0, 600), IBV_SEND_SIGNALED);
	send_it(qp, 4, piece(0, 16), IBV_SEND_SIGNALED);
	munmap(other, PAGE);
	show_completions();
	printf("dereg %d\n", ibv_dereg_mr(other_mr));
}

/* The device has it pinned: that it cannot be read any more is no matter to a send. */
static void sends_of_memory_that_is_gone(void)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq, .recv_cq = cq, .cap = {DEPTH, DEPTH, 4, 4, 64}, .qp_type = IBV_QPT_RC};
	/* The stand-in sends nothing as long as there is no peer. */
	struct ibv_qp *q = check(ibv_create_qp(pd, &attr), "ibv_create_qp");
	char *other = map(4 * PAGE);
	struct ibv_mr *other_mr = ibv_reg_mr(pd, other, 4 * PAGE, 0);

	mprotect(other + PAGE, PAGE, PROT_NONE);
	munmap(other + 3 * PAGE, PAGE);
	for (size_t i = 0; i < 4; i++)
		if (send_it(q, i, (struct ibv_sge){(uintptr_t)other + i * PAGE, 64, other_mr->lkey},
			    IBV_SEND_SIGNALED))
			printf("post fails\n");
	show_completions();
}

/* Deregistered before it is polled, and looked at afterwards. */
static void deregistered_before_the_poll(void)
{
	char *other = map(PAGE);
	struct ibv_mr *other_mr = ibv_reg_mr(pd, other, PAGE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)other, 600, other_mr->lkey};
	struct timeval now;

	gettimeofday(&now, NULL);
	memcpy(memory, &now, sizeof(now));
	receive(qp, 1, sge);
	send_it(qp, 3, piece(0, 600), IBV_SEND_SIGNALED);
	printf("dereg %d\n", ibv_dereg_mr(other_mr));
	show_completions();
	printf("arrived: %d\n", !memcmp(other, memory, 600));
}

/* ----------------------------------------------------------------- threads */

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

static void clean_up(void)
{
	show_completions();
	printf("qp %d", ibv_destroy_qp(qp));
	printf(" mr %d", ibv_dereg_mr(mr));
	printf(" cq %d", ibv_destroy_cq(cq));
	printf(" channel %d", ibv_destroy_comp_channel(channel));
	printf(" pd %d", ibv_dealloc_pd(pd));
	printf(" close %d\n", ibv_close_device(context));
}

static void verbs_at_exit(void)
{
	atexit(clean_up);
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
}

__attribute__((noinline)) static int deep(int n)
{
	volatile char bytes[256];

	memset((char *)bytes, n, sizeof(bytes));
	if (n)
		return deep(n - 1) + bytes[0];
	receive(qp, 1, piece(0, 2000));
	send_it(qp, 2, piece(PAGE, 2000), IBV_SEND_SIGNALED);
	show_completions();
	return 0;
}

static void *small_stack(void *unused)
{
	deep(8);
	return NULL;
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

/* ----------------------------------------------------------------- signals */

static sigjmp_buf back;
static volatile sig_atomic_t ticks;

static void jump(int signal)
{
	ticks++;
	siglongjmp(back, 1);
}

/* Jumps out of whatever verbs call is under way. */
static void jump_out_of_a_poll(void)
{
	struct itimerval soon = {.it_value.tv_usec = 20000};
	struct ibv_wc wc;

	signal(SIGALRM, jump);
	for (int i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1)) {
			setitimer(ITIMER_REAL, &soon, NULL);
			for (;;)
				ibv_poll_cq(cq, 1, &wc);
		}
		printf("jumped %d\n", (int)ticks);
		receive(qp, 1, piece(0, 64));
		send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
		show_completions();
	}
}

static void jump_out_of_an_event(void)
{
	struct itimerval soon = {.it_value.tv_usec = 20000};
	struct ibv_cq *which;
	void *data;

	signal(SIGALRM, jump);
	for (volatile int i = 0; i < 3; i++) {
		if (!sigsetjmp(back, 1)) {
			setitimer(ITIMER_REAL, &soon, NULL);
			ibv_get_cq_event(channel, &which, &data);
		}
		printf("jumped %d\n", (int)ticks);
	}
	show_completions();
}

static void count_tick(int signal)
{
	ticks++;
}

static void post_in_handler(int signal)
{
	ticks++;
	receive(qp, 7, piece(0, 64));
	send_it(qp, 8, piece(PAGE, 64), IBV_SEND_SIGNALED);
}

static void posts_in_a_handler(void)
{
	signal(SIGUSR1, post_in_handler);
	for (int i = 0; i < 5; i++) {
		raise(SIGUSR1);
		show_completions();
	}
	printf("%d\n", (int)ticks);
}

/* The smallest stack for handlers that POSIX names. */
static void smallest_signal_stack(void)
{
	long n = sysconf(_SC_MINSIGSTKSZ);
	char *bytes = map(16 * PAGE);
	stack_t stack = {.ss_sp = bytes + PAGE, .ss_size = (size_t)n};
	struct sigaction act = {.sa_handler = count_tick, .sa_flags = SA_ONSTACK};
	struct timespec pause = {.tv_nsec = 1000};

	memset(bytes, 0x5a, PAGE);
	printf("sigaltstack %d\n", sigaltstack(&stack, NULL));
	sigaction(SIGUSR1, &act, NULL);
	for (int i = 0; i < 10; i++) {
		raise(SIGUSR1);
		nanosleep(&pause, NULL);
	}
	for (int i = 0; i < PAGE; i++)
		if (bytes[i] != 0x5a) {
			printf("written below the stack\n");
			break;
		}
	printf("%d\n", (int)ticks);
}

/* --------------------------------------------------------------- processes */

static void a_child_with_a_device(void)
{
	int status;
	pid_t child;

	ibv_fork_init();
	receive(qp, 1, piece(0, 64));
	fflush(stdout);
	child = fork();
	if (!child) {
		open_all();
		receive(qp, 1, piece(0, 64));
		if (send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED))
			_exit(1);
		_exit(ibv_poll_cq(cq, 4, (struct ibv_wc[4]){}) == 2 ? 5 : 6);
	}
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	show_completions();
	waitpid(child, &status, 0);
	printf("child %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

/* Threads that hold a lock of the shim's at the fork do not exist in the child. */
static void *post_and_poll(void *q)
{
	struct ibv_wc wc;

	for (int i = 0; i < 2000; i++) {
		receive(q, 1, piece(0, 8));
		send_it(q, 2, piece(PAGE, 8), IBV_SEND_SIGNALED);
		while (ibv_poll_cq(cq, 1, &wc) > 0)
			;
		ibv_dereg_mr(ibv_reg_mr(pd, memory, 8, IBV_ACCESS_LOCAL_WRITE));
		ibv_destroy_qp(new_qp());
	}
	return NULL;
}

static void children_while_threads_post(void)
{
	pthread_t t;
	int status, bad = 0;

	ibv_fork_init();
	fflush(stdout);
	pthread_create(&t, NULL, post_and_poll, qp);
	for (int i = 0; i < 20; i++) {
		pid_t child = fork();

		if (!child) {
			alarm(10);
			open_all();
			receive(qp, 1, piece(0, 64));
			send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
			_exit(5);
		}
		waitpid(child, &status, 0);
		bad += !WIFEXITED(status) || WEXITSTATUS(status) != 5;
	}
	pthread_join(t, NULL);
	printf("%d children did not end\n", bad);
}

static void quick(void)
{
	at_quick_exit(clean_up);
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	fflush(stdout);
	quick_exit(3);
}

static void by_number(void)
{
	printf("leaves\n");
	fflush(stdout);
	syscall(SYS_exit_group, 3);
}

/* The shim's descriptors are among the few, but come back. */
static void few_descriptors(void)
{
	struct rlimit few = {24, 24};
	int fd, n = 0, threads = 0;
	pthread_t t;

	printf("limit %d\n", setrlimit(RLIMIT_NOFILE, &few));
	for (int i = 0; i < 3; i++)
		if (!pthread_create(&t, NULL, small_stack, NULL) && !pthread_join(t, NULL))
			threads++;
	printf("%d threads\n", threads);
	while ((fd = dup(0)) >= 0)
		n++;
	printf("%d more, errno %d\n", n, errno);
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	show_completions();
}

/* The first thread when nothing more can be opened: it is not recorded, and runs. */
static void no_descriptors(void)
{
	struct rlimit few = {16, 16};
	pthread_t t;

	setrlimit(RLIMIT_NOFILE, &few);
	while (dup(0) >= 0)
		;
	if (!pthread_create(&t, NULL, small_stack, NULL) && !pthread_join(t, NULL))
		printf("a thread\n");
}

static void little_address_space(void)
{
	struct rlimit little = {64 << 20, 64 << 20};
	int threads = 0;
	pthread_t t;
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 65536);
	printf("limit %d\n", setrlimit(RLIMIT_AS, &little));
	for (int i = 0; i < 3; i++)
		if (!pthread_create(&t, &attr, small_stack, NULL) && !pthread_join(t, NULL))
			threads++;
	printf("large malloc: %p\n", malloc(256 << 20));
	for (int i = 0; i < 100; i++)
		ibv_destroy_qp(new_qp());
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	show_completions();
}

static void no_locked_memory(void)
{
	struct rlimit none = {0, 0};

	printf("limit %d\n", setrlimit(RLIMIT_MEMLOCK, &none));
	printf("mlockall %d\n", mlockall(MCL_FUTURE) != 0 && errno != EPERM);
	receive(qp, 1, piece(0, 64));
	send_it(qp, 2, piece(PAGE, 64), IBV_SEND_SIGNALED);
	show_completions();
	munlockall();
}

/* ----------------------------------------------------------------- exposed regions */

/* Locks that share a page with memory that peers write: the kernel looks at them. */
struct shared {
	char window[512];
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	sem_t sem;
	int turn, count;
};

static struct shared *s;

static void *take_turns(void *argument)
{
	int me = (int)(intptr_t)argument;

	for (int i = 0; i < 200; i++) {
		pthread_mutex_lock(&s->mutex);
		while (s->turn != me)
			pthread_cond_wait(&s->cond, &s->mutex);
		s->turn = !me;
		s->count++;
		pthread_cond_broadcast(&s->cond);
		pthread_mutex_unlock(&s->mutex);
	}
	sem_post(&s->sem);
	return NULL;
}

static void locks_beside_a_exposed(void)
{
	pthread_t t[2];
	struct ibv_mr *window;

	s = (void *)map(PAGE);
	pthread_mutex_init(&s->mutex, NULL);
	pthread_cond_init(&s->cond, NULL);
	sem_init(&s->sem, 0, 0);
	window = ibv_reg_mr(pd, s->window, sizeof(s->window), ALL);
	for (intptr_t i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, take_turns, (void *)i);
	for (int i = 0; i < 2; i++)
		sem_wait(&s->sem);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("%d turns, dereg %d\n", s->count, ibv_dereg_mr(window));
}

static int write_to(char *p, struct ibv_mr *to, size_t from, size_t n)
{
	struct ibv_sge sge = piece(from, n);
	struct ibv_send_wr wr = {.wr_id = 9,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	wr.wr.rdma.remote_addr = (uintptr_t)p;
	wr.wr.rdma.rkey = to->rkey;
	return ibv_post_send(qp, &wr, &bad);
}

/* An exposed region twice: what is taken away with the one stays with the other. */
static void exposed_regions_over_each_other(void)
{
	char *p = map(4 * PAGE);
	struct ibv_mr *one = ibv_reg_mr(pd, p, 3 * PAGE, ALL),
		      *two = ibv_reg_mr(pd, p + PAGE, 3 * PAGE, ALL),
		      *local = ibv_reg_mr(pd, p, 4 * PAGE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)p + 2 * PAGE, 64, local->lkey};

	memset(memory, 'a', PAGE);
	printf("%d", write_to(p + PAGE, one, 0, 64));
	printf(" %.3s", p + PAGE);
	printf(" dereg %d", ibv_dereg_mr(one));
	memset(memory, 'b', PAGE);
	printf(" %d", write_to(p + PAGE, two, 0, 64));
	printf(" %.3s\n", p + PAGE);
	receive(qp, 1, sge);
	memset(memory, 'c', PAGE);
	send_it(qp, 2, piece(0, 64), IBV_SEND_SIGNALED);
	show_completions();
	printf("received %.3s", p + 2 * PAGE);
	printf(" dereg %d", ibv_dereg_mr(two));
	printf(" %d", ibv_dereg_mr(local));
	printf(" %.3s %.3s\n", p + PAGE, p + 2 * PAGE);
}

/* Memory that is given back while it is still an exposed region. */
static void exposed_regions_that_are_given_back(void)
{
	char *p = map(4 * PAGE), *heap = malloc(100000);
	struct ibv_mr *window = ibv_reg_mr(pd, p, 4 * PAGE, ALL),
		      *in_heap = ibv_reg_mr(pd, heap, 100000, ALL);

	write_to(p, window, 0, 64);
	show_completions();
	munmap(p, 4 * PAGE);
	p = mmap(p, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0);
	memset(p, 'x', 4 * PAGE);
	printf("dereg %d", ibv_dereg_mr(window));
	printf(" %c%c\n", p[0], p[4 * PAGE - 1]);
	memset(heap, 'h', 100000);
	write_to(heap + 5000, in_heap, 0, 64);
	free(heap);
	for (int i = 0; i < 100; i++) {
		char *q = malloc((size_t)i * 1000 + 1);

		memset(q, i, (size_t)i * 1000 + 1);
		if (i % 2)
			free(q);
	}
	printf("dereg %d\n", ibv_dereg_mr(in_heap));
	show_completions();
}

/* The stand-in, unlike a device, loses sight of the page when it is given up: no write to it after
 * that. */
static void exposed_regions_that_are_protected(void)
{
	char *p = map(4 * PAGE);
	struct ibv_mr *window = ibv_reg_mr(pd, p, 4 * PAGE, ALL);

	memset(memory, 'a', PAGE);
	write_to(p, window, 0, 64);
	printf("mprotect %d", mprotect(p, PAGE, PROT_READ));
	printf(" %c", p[0]);
	printf(" mprotect %d", mprotect(p, PAGE, PROT_READ | PROT_WRITE));
	p[1] = 'b';
	printf(" %.3s", p);
	printf(" madvise %d", madvise(p, PAGE, MADV_DONTNEED));
	printf(" %d", p[0]);
	printf(" dontfork %d", madvise(p, 4 * PAGE, MADV_DONTFORK));
	printf(" mlock %d", mlock(p, PAGE));
	printf(" msync %d", msync(p, PAGE, MS_ASYNC));
	printf(" dereg %d\n", ibv_dereg_mr(window));
	show_completions();
}

/* The program's handler sees the faults that are its own, also beside an exposed region. */
static sigjmp_buf from_fault;
static volatile uintptr_t fault_at;

static void note_fault(int signal, siginfo_t *info, void *unused)
{
	fault_at = (uintptr_t)info->si_addr;
	siglongjmp(from_fault, 1);
}

static void faults_beside_a_exposed(void)
{
	char *p = map(4 * PAGE);
	struct sigaction act = {.sa_sigaction = note_fault, .sa_flags = SA_SIGINFO};
	struct ibv_mr *window;

	munmap(p + 3 * PAGE, PAGE);
	window = ibv_reg_mr(pd, p, 3 * PAGE, ALL);
	sigaction(SIGSEGV, &act, NULL);
	for (int i = 0; i < 3; i++) {
		write_to(p + 2 * PAGE, window, 0, 64);
		if (!sigsetjmp(from_fault, 1)) {
			for (volatile char *c = p + 2 * PAGE;; c++)
				*c = (char)i;
		}
		printf("fault at %td\n", (char *)fault_at - p);
	}
	show_completions();
	printf("dereg %d\n", ibv_dereg_mr(window));
}

/*
 * A page is a exposed region's by turns, and another thread's variables are on it.  Which of
 * its loads and stores find an exposed region is chance: that much is not replayed.
 */
struct neighbours {
	char window[512];
	volatile uint64_t count;
};

static void *count_up(void *argument)
{
	volatile uint64_t *count = argument;

	for (int i = 0; i < 300000; i++)
		++*count;
	return NULL;
}

static void variables_beside_a_exposed(void)
{
	struct neighbours *n = (void *)map(PAGE);
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, count_up, (void *)(&n->count + i));
	for (int i = 0; i < 300; i++)
		if (ibv_dereg_mr(ibv_reg_mr(pd, n->window, sizeof(n->window), ALL)))
			printf("dereg fails\n");
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("%llu %llu\n", (unsigned long long)n->count, (unsigned long long)(&n->count)[1]);
}

/* What the first exposed region's registration knew of the page is not there in a replay. */
static void a_request_on_a_page_that_was_a_exposed_regions(void)
{
	static char large[4 << 20] __attribute__((aligned(PAGE)));
	static volatile uint64_t other[PAGE / 8] __attribute__((aligned(PAGE)));
	char *page = large + 10 * PAGE;
	struct ibv_recv_wr *wr = (void *)(page + 1024), *bad;
	struct ibv_qp *q = new_qp();
	struct ibv_mr *all = ibv_reg_mr(pd, large, sizeof(large), ALL), *part, *others;
	uint64_t sum = 0;

	ibv_dereg_mr(all);
	part = ibv_reg_mr(pd, page, 64, ALL);
	others = ibv_reg_mr(pd, (void *)other, PAGE, ALL);
	for (uint64_t round = 0; round < 5; round++) {
		wr->wr_id = round;
		wr->num_sge = 0;
		wr->sg_list = NULL;
		wr->next = NULL;
		for (uint64_t i = 0; i < 40; i++)
			other[i] = i + round;
		sum = sum * 31 + (uint64_t)ibv_post_recv(q, wr, &bad);
	}
	for (uint64_t i = 0; i < 40; i++)
		sum += other[i];
	printf("%llu\n", (unsigned long long)sum);
	ibv_dereg_mr(others);
	ibv_dereg_mr(part);
	ibv_destroy_qp(q);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
    {"lists-that-are-too-long", lists_that_are_too_long},
    {"inline-data-that-is-too-long", inline_data_that_is_too_long},
    {"requests-in-constant-memory", requests_in_constant_memory},
    {"odd-polls", odd_polls},
    {"memory-that-is-gone", memory_that_is_gone},
    {"sends-of-memory-that-is-gone", sends_of_memory_that_is_gone},
    {"deregistered-before-the-poll", deregistered_before_the_poll},
    {"many-queue-pairs", many_queue_pairs},
    {"one-chain-for-all", one_chain_for_all},
    {"cancelled-in-an-event", cancelled_in_an_event},
    {"cancelled-in-a-poll-loop", cancelled_in_a_poll_loop},
    {"verbs-in-a-destructor", verbs_in_a_destructor},
    {"verbs-at-exit", verbs_at_exit},
    {"smallest-stack", threads_with_the_smallest_stack},
    {"jump-out-of-a-poll", jump_out_of_a_poll},
    {"jump-out-of-an-event", jump_out_of_an_event},
    {"posts-in-a-handler", posts_in_a_handler},
    {"smallest-signal-stack", smallest_signal_stack},
    {"a-child-with-a-device", a_child_with_a_device},
    {"children-while-threads-post", children_while_threads_post},
    {"quick-exit", quick},
    {"exit-by-number", by_number},
    {"few-descriptors", few_descriptors},
    {"no-descriptors", no_descriptors},
    {"little-address-space", little_address_space},
    {"no-locked-memory", no_locked_memory},
    {"locks-beside-a-window", locks_beside_a_exposed},
    {"windows-over-each-other", exposed_regions_over_each_other},
    {"windows-that-are-given-back", exposed_regions_that_are_given_back},
    {"windows-that-are-protected", exposed_regions_that_are_protected},
    {"variables-beside-a-window", variables_beside_a_exposed},
    {"faults-beside-a-window", faults_beside_a_exposed},
    {"a-request-on-a-page-that-was-a-windows", a_request_on_a_page_that_was_a_exposed_regions},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc > 1 && !strcmp(argv[1], cases[i].name)) {
			open_all();
			cases[i].run();
			return 3;
		}
		if (argc < 2)
			puts(cases[i].name);
	}
	return argc > 1;
}
