/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * aio.c: asynchronous reads and writes by the kernel, as libaio makes them.
 *
 *	aio CASE OUTPUT     works on the file OUTPUT.data, prints into OUTPUT; without arguments: names the cases
 *
 * The case `copies` writes what is in OUTPUT.in.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/aio_abi.h>

#include "asynchronous.h"
#include "first.h"

#define BLOCK  4096
#define BLOCKS 64
#define RING_MAGIC 0xa10a10a1

/* What libaio finds at a context, in order to take events out of it by itself. */
struct ring {
	uint32_t id, size, head, tail, magic;
};

static aio_context_t set_up(unsigned int n)
{
	aio_context_t context = 0;
	long err = syscall(SYS_io_setup, n, &context);

	fprintf(out, "set up: %ld, %#lx\n", err, (long)context);
	return context;
}

/* As libaio: without a system call, if there is none and nobody waits. */
static long get_events(aio_context_t context, long min, long n, struct io_event *events, struct timespec *timeout)
{
	const struct ring *ring = (const struct ring *)context;

	if (ring->magic == RING_MAGIC && timeout && !timeout->tv_sec && !timeout->tv_nsec && ring->head == ring->tail)
		return 0;
	return syscall(SYS_io_getevents, context, min, n, events, timeout);
}

static struct iocb request(int opcode, void *buf, size_t n, off_t offset)
{
	return (struct iocb){
	    .aio_data = (uint64_t)offset ^ 0x5eed,
	    .aio_fildes = (uint32_t)file,
	    .aio_lio_opcode = (uint16_t)opcode,
	    .aio_buf = (uintptr_t)buf,
	    .aio_nbytes = n,
	    .aio_offset = offset,
	};
}

/* Something that another run does not have. */
static void fill(unsigned char *p, size_t n)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	for (size_t i = 0; i < n; i++)
		p[i] = (unsigned char)(now.tv_nsec >> i % 23);
}

static unsigned char *buffer(size_t n)
{
	return mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void finish(aio_context_t context, int n)
{
	struct io_event event;

	for (int i = 0; i < n; i++) {
		long found = get_events(context, 1, 1, &event, NULL);

		fprintf(out, "%ld event: of %#lx %#lx, %ld %ld\n", found, (long)event.obj, (long)event.data,
			(long)event.res, (long)event.res2);
	}
}

static void submit(aio_context_t context, struct iocb *requests, int n)
{
	struct iocb *list[BLOCKS];

	for (int i = 0; i < n; i++)
		list[i] = &requests[i];
	fprintf(out, "submitted: %ld\n", syscall(SYS_io_submit, context, n, list));
}

/* All of a file, in blocks, and back. */
static void blocks(int opening)
{
	unsigned char *written = buffer(BLOCK * BLOCKS), *found = buffer(BLOCK * BLOCKS);
	aio_context_t context = set_up(BLOCKS);
	struct iocb requests[BLOCKS];
	struct timespec none = {0};
	struct io_event event;

	if (opening)
		fcntl(file, F_SETFL, fcntl(file, F_GETFL) | opening);
	fill(written, BLOCK * BLOCKS);
	for (int i = 0; i < BLOCKS; i++)
		requests[i] = request(IOCB_CMD_PWRITE, written + i * BLOCK, BLOCK, i * BLOCK);
	submit(context, requests, BLOCKS);
	finish(context, BLOCKS);
	for (int i = 0; i < BLOCKS; i++)
		requests[i] = request(IOCB_CMD_PREAD, found + i * BLOCK, BLOCK, i * BLOCK);
	submit(context, requests, BLOCKS);
	finish(context, BLOCKS);
	fprintf(out, "none left: %ld\n", get_events(context, 0, 1, &event, &none));
	print_sum("found", found, BLOCK * BLOCKS);
	fprintf(out, "same: %d\n", !memcmp(written, found, BLOCK * BLOCKS));
	fprintf(out, "by read: %zd", pread(file, found, BLOCK * BLOCKS, 0));
	fprintf(out, " same: %d\n", !memcmp(written, found, BLOCK * BLOCKS));
	fprintf(out, "destroyed: %ld\n", syscall(SYS_io_destroy, context));
}

static void cached(void)
{
	blocks(0);
}

static void direct(void)
{
	blocks(O_DIRECT);
}

/* In pieces, past the end, to the file's end, and what the kernel refuses. */
static void oddities(void)
{
	unsigned char first[100], second[300];
	struct iovec pieces[] = {{first, sizeof(first)}, {second, sizeof(second)}};
	aio_context_t context = set_up(8), other = context;
	struct iocb requests[4];
	struct timespec soon = {.tv_nsec = 1000000};
	struct io_event events[4];

	fill(first, sizeof(first));
	fill(second, sizeof(second));
	requests[0] = request(IOCB_CMD_PWRITEV, pieces, 2, 10);
	submit(context, requests, 1);
	finish(context, 1);
	memset(first, 0, sizeof(first));
	memset(second, 0, sizeof(second));
	requests[0] = request(IOCB_CMD_PREADV, pieces, 2, 110);
	requests[1] = request(IOCB_CMD_FDSYNC, NULL, 0, 0);
	submit(context, requests, 2);
	finish(context, 2);
	print_sum("first", first, sizeof(first));
	print_sum("second", second, sizeof(second));
	requests[0] = request(IOCB_CMD_PREAD, first, sizeof(first), 1 << 20);
	requests[1] = request(IOCB_CMD_PREAD, NULL, sizeof(first), 0);
	requests[2] = request(77, first, sizeof(first), 0);
	submit(context, requests, 3);
	finish(context, 2);
	fprintf(out, "nothing comes: %ld\n", get_events(context, 1, 4, events, &soon));
	fprintf(out, "%ld", syscall(SYS_io_submit, context, 1, NULL));
	fprintf(out, " %d %ld", errno, syscall(SYS_io_submit, 4711, 1, NULL));
	fprintf(out, " %d %ld", errno, syscall(SYS_io_setup, 8, &other));
	fprintf(out, " %d %ld", errno, syscall(SYS_io_setup, 8, NULL));
	fprintf(out, " %d %ld", errno, syscall(SYS_io_cancel, context, &requests[0], &events[0]));
	fprintf(out, " %d\n", errno);
	fprintf(out, "destroyed: %ld\n", syscall(SYS_io_destroy, context));
	fprintf(out, "once more: %ld %d\n", syscall(SYS_io_destroy, context), errno);
}

/* A descriptor says when there are events; the mask of io_pgetevents. */
static void by_eventfd(void)
{
	unsigned char *p = buffer(BLOCK);
	aio_context_t context = set_up(8);
	struct pollfd ready = {.fd = eventfd(0, EFD_NONBLOCK), .events = POLLIN};
	struct { const uint64_t *set; size_t size; } mask;
	const uint64_t all = ~0ull;
	struct io_event event;
	uint64_t count = 0;
	struct iocb r;

	mask.set = &all;
	mask.size = sizeof(all);
	fill(p, BLOCK);
	r = request(IOCB_CMD_PWRITE, p, BLOCK, 0);
	for (int i = 0; i < 2; i++) {
		r.aio_flags = IOCB_FLAG_RESFD;
		r.aio_resfd = (uint32_t)ready.fd;
		submit(context, &r, 1);
		fprintf(out, "ready: %d", poll(&ready, 1, -1));
		fprintf(out, " %zd", read(ready.fd, &count, sizeof(count)));
		fprintf(out, " %ld\n", (long)count);
		fprintf(out, "%ld", syscall(SYS_io_pgetevents, context, 1, 1, &event, NULL, &mask));
		fprintf(out, " %ld\n", (long)event.res);
		memset(p, 0, BLOCK);
		r = request(IOCB_CMD_PREAD, p, BLOCK, 0);
	}
	print_sum("found", p, BLOCK);
}

/* Nobody takes the event: what the reads have brought is there when the context is gone. */
static void abandoned(void)
{
	unsigned char *written = buffer(BLOCK), *found = buffer(BLOCK);
	aio_context_t context = set_up(8);
	struct iocb r;

	fill(written, BLOCK);
	fprintf(out, "written: %zd\n", pwrite(file, written, BLOCK, 0));
	r = request(IOCB_CMD_PREAD, found, BLOCK, 0);
	submit(context, &r, 1);
	fprintf(out, "destroyed: %ld\n", syscall(SYS_io_destroy, context));
	print_sum("found", found, BLOCK);
}

/* A pipe, whose content no file has. */
static void through_pipe(void)
{
	unsigned char found[32] = {0};
	aio_context_t context = set_up(8);
	struct iocb requests[2];
	int ends[2];

	pipe(ends);
	fill(found, sizeof(found));
	file = ends[1];
	requests[0] = request(IOCB_CMD_PWRITE, found, sizeof(found), 0);
	submit(context, requests, 1);
	finish(context, 1);
	memset(found, 0, sizeof(found));
	file = ends[0];
	requests[0] = request(IOCB_CMD_PREAD, found, sizeof(found), 0);
	submit(context, requests, 1);
	finish(context, 1);
	print_sum("found", found, sizeof(found));
}

static void copies(void)
{
	unsigned char *p = buffer(BLOCK);
	aio_context_t context = set_up(8);
	struct iocb r;

	r = request(IOCB_CMD_PWRITE, p, (size_t)read(in, p, BLOCK), 0);
	submit(context, &r, 1);
	finish(context, 1);
}

#define ROUNDS 100

static aio_context_t shared;

/* Takes the events of requests that another thread has submitted, and uses their memory again. */
static void *take(void *sums)
{
	struct io_event event;

	for (int i = 0; i < ROUNDS; i++) {
		struct iocb *r;
		unsigned char *p;

		if (get_events(shared, 1, 1, &event, NULL) != 1)
			break;
		r = (struct iocb *)(uintptr_t)event.obj;
		p = (unsigned char *)(uintptr_t)r->aio_buf;
		for (size_t k = 0; k < BLOCK; k++)
			*(uint64_t *)sums = *(uint64_t *)sums * 31 + p[k];
		memset(p, 0xff, BLOCK);
		free(p);
		free(r);
	}
	return NULL;
}

static void *give(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		unsigned char *p = malloc(BLOCK);
		struct iocb *r = malloc(sizeof(*r));

		fill(p, BLOCK);
		*r = request(i % 3 ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE, p, BLOCK, i % 7 * BLOCK);
		while (syscall(SYS_io_submit, shared, 1, &r) != 1)
			;
	}
	return NULL;
}

static void threads(void)
{
	pthread_t takers[2], givers[2];
	uint64_t sums[2] = {0};

	shared = set_up(2 * ROUNDS);
	for (int i = 0; i < 2; i++) {
		pthread_create(&takers[i], NULL, take, &sums[i]);
		pthread_create(&givers[i], NULL, give, NULL);
	}
	for (int i = 0; i < 2; i++) {
		pthread_join(givers[i], NULL);
		pthread_join(takers[i], NULL);
	}
	fprintf(out, "sums: %016lx %016lx\n", (long)sums[0], (long)sums[1]);
}

static sem_t waits;

static void *end_with_event(void *unused)
{
	struct io_event event;

	sem_post(&waits);
	fprintf(out, "event: %ld", get_events(shared, 1, 1, &event, NULL));
	fprintf(out, ", %ld\n", (long)event.res);
	exit(0);
}

/* The process ends before io_submit has returned. */
static void ends_first(void)
{
	unsigned char *p = buffer(BLOCK);
	struct iocb r, *list = &r;
	pthread_t t;

	fill(p, BLOCK);
	r = request(IOCB_CMD_PWRITE, p, BLOCK, 0);
	shared = set_up(1);
	create_first(&t, end_with_event);
	sem_wait(&waits);
	nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	syscall(SYS_io_submit, shared, 1, &list);
	pause();
}

#define SIZE	 ((off_t)4 << 20) /* whose copy takes some time */
#define CHILDREN 5

static atomic_bool has_ended;

/* Writes past the page cache, and sees each request end, while the file is copied because a child has changed it. */
static void *write_on(void *of)
{
	const aio_context_t context = *(aio_context_t *)of;
	unsigned char *bytes = buffer(BLOCK);
	struct io_event event;
	struct iocb r, *list = &r;

	for (off_t at = 0; !atomic_load(&has_ended); at = (at + 33 * BLOCK) % SIZE) {
		fill(bytes, BLOCK);
		r = request(IOCB_CMD_PWRITE, bytes, BLOCK, at);
		if (syscall(SYS_io_submit, context, 1, &list) != 1 || get_events(context, 1, 1, &event, NULL) != 1)
			break;
	}
	return NULL;
}

static void beside_copy(void)
{
	aio_context_t context = set_up(4);
	pthread_t writer;
	int cached = file, status;

	ftruncate(file, SIZE);
	file = open(data_path, O_RDWR | O_DIRECT);
	pthread_create(&writer, NULL, write_on, &context);
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();

		if (!child)
			_exit(pwrite(cached, "a child", 7, SIZE + 10 * i) != 7);
		waitpid(child, &status, 0);
		fprintf(out, "child: %d\n", status);
	}
	atomic_store(&has_ended, true);
	pthread_join(writer, NULL);
}

static const struct a_case cases[] = {
    {"cached", cached},       {"direct", direct},             {"oddities", oddities}, {"by_eventfd", by_eventfd},
    {"abandoned", abandoned}, {"through_pipe", through_pipe}, {"threads", threads},
    {"copies", copies},       {"beside_copy", beside_copy}, {"ends_first", ends_first},
};

int main(int argc, char **argv)
{
	return run_case(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
