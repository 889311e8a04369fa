/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uring_order.c: what io_uring writes to a file has an order with what else happens: children that change the file, signals,
 * the end of the ring and of the process.
 *
 *	uring_order CASE OUTPUT     works on the file OUTPUT.data, prints into OUTPUT; without arguments: names the cases
 */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uring_requests.h"

#define MS 1000

/* A child that changes the file when it ends. */
static pid_t begin_child(useconds_t after, off_t at)
{
	pid_t child = fork();

	if (child)
		return child;
	usleep(after);
	_exit(pwrite(file, "a child", 7, at) != 7);
}

/* ------------------------------------------------------------------- children */

#define SIZE	 ((off_t)4 << 20) /* whose copy takes some time */
#define CHILDREN 5

static atomic_bool has_ended;

/* Writes block after block, and sees each request end, while the file is copied. */
static void *write_on(void *unused)
{
	static unsigned char bytes[64];
	struct io_uring ring = set_up(4, 0);
	struct io_uring_cqe *cqe;

	fill(bytes, sizeof(bytes));
	for (off_t at = 0; !atomic_load(&has_ended); at = (at + 997) % (SIZE - 64)) {
		REQUEST(&ring, 1, write, file, bytes, sizeof(bytes), (uint64_t)at);
		io_uring_submit(&ring);
		io_uring_wait_cqe(&ring, &cqe);
		io_uring_cqe_seen(&ring, cqe);
	}
	io_uring_queue_exit(&ring);
	return NULL;
}

static void beside_copy(void)
{
	pthread_t writer;
	pid_t child;
	int status;

	ftruncate(file, SIZE);
	child = begin_child(50 * MS, SIZE);
	pthread_create(&writer, NULL, write_on, NULL);
	for (int i = 0; i < CHILDREN; i++) {
		waitpid(child, &status, 0);
		fprintf(out, "child: %d\n", status);
		child = begin_child(MS, SIZE + 10 * i);
	}
	waitpid(child, &status, 0);
	atomic_store(&has_ended, true);
	pthread_join(writer, NULL);
}

/* The child ends when the request has, and the program has not looked yet. */
static void untaken(void)
{
	unsigned char bytes[100];
	struct io_uring ring = set_up(4, 0);
	pid_t child = begin_child(20 * MS, 50);
	struct __kernel_timespec soon = {.tv_nsec = 10000000};
	int appends = open(data_path, O_WRONLY | O_APPEND), status;

	fill(bytes, sizeof(bytes));
	REQUEST(&ring, 0, timeout, &soon, 0, 0);
	ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask].flags |= IOSQE_IO_HARDLINK;
	REQUEST(&ring, 1, write, appends, bytes, sizeof(bytes), 0);
	link_last(&ring);
	REQUEST(&ring, 2, write, file, bytes, 60, (uint64_t)-1);
	link_last(&ring);
	REQUEST(&ring, 3, write, file, bytes, 40, 2000);
	io_uring_submit(&ring);
	waitpid(child, &status, 0);
	fprintf(out, "child: %d, then %zd\n", status, pwrite(file, "over it", 7, 2000));
	for (int i = 0; i < 4; i++)
		take(&ring);
	io_uring_queue_exit(&ring);
}

/* -------------------------------------------------------------------- the end */

/* Nobody takes the completions: not of a ring that is closed, nor of one that is there at the end. */
static void unfinished(void)
{
	static unsigned char bytes[3][BLOCK];

	for (int i = 0; i < 3; i++) {
		struct io_uring ring = set_up(4, 0);

		fill(bytes[i], BLOCK);
		REQUEST(&ring, 1, write, file, bytes[i], BLOCK, (uint64_t)i * BLOCK);
		ring.sq.sqes[(ring.sq.sqe_tail - 1) & *ring.sq.kring_mask].flags |= IOSQE_ASYNC;
		io_uring_submit(&ring);
		if (i < 2)
			io_uring_queue_exit(&ring);
	}
	print_sum("written", bytes, sizeof(bytes));
}

static void *wait_for_ever(void *ring)
{
	static unsigned char bytes[BLOCK];

	fill(bytes, BLOCK);
	REQUEST(ring, 1, write, file, bytes, BLOCK, 0);
	io_uring_submit_and_wait(ring, 2);
	return NULL;
}

/* A thread hands a request to the kernel and waits, in one call, for more than that until the process ends. */
static void awaited(void)
{
	struct io_uring ring = set_up(4, 0);
	struct stat st = {0};
	pthread_t t;

	pthread_create(&t, NULL, wait_for_ever, &ring);
	while (!fstat(file, &st) && !st.st_size)
		usleep(1000);
	fprintf(out, "written: %ld\n", (long)st.st_size);
}

/* -------------------------------------------------------------------- signals */

static volatile sig_atomic_t alarms;

static void count(int signo)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	alarms++;
}

/* Asks the kernel for completions, and never waits; most signals come while it does. */
static void *ask(void *sum)
{
	struct io_uring ring = set_up(4, 0);
	struct io_uring_cqe *cqe;

	for (int i = 0; i < 3000; i++) {
		REQUEST(&ring, 1, nop);
		io_uring_submit(&ring);
		while (io_uring_get_events(&ring), io_uring_peek_cqe(&ring, &cqe))
			;
		io_uring_cqe_seen(&ring, cqe);
		*(long *)sum = *(long *)sum * 31 + alarms;
	}
	io_uring_queue_exit(&ring);
	return NULL;
}

static void handlers(void)
{
	const struct itimerval often = {{0, 100}, {0, 100}}, never = {0};
	struct sigaction act = {.sa_handler = count, .sa_flags = SA_RESTART};
	pthread_t threads[2];
	long sums[2] = {0};

	sigaction(SIGALRM, &act, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, ask, &sums[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	fprintf(out, "alarms: %d, sums %016lx %016lx\n", alarms, sums[0], sums[1]);
}

static const struct a_case cases[] = {
    {"beside_copy", beside_copy}, {"untaken", untaken}, {"unfinished", unfinished}, {"awaited", awaited}, {"handlers", handlers},
};

int main(int argc, char **argv)
{
	return run_case(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
