/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * bootstrap.c: the start and the end of a rank, and its TCP exchange with pgasrun: the rank
 * sends what others have to know about it, and pgasrun answers with what all ranks sent.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

struct pgas pgas;

void pgas_fail(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "pgas: rank %d: ", pgas.rank);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

static long setting(const char *name)
{
	const char *text = getenv(name);

	if (!text)
		pgas_fail("no %s in the environment; start this program by pgasrun", name);
	return atol(text);
}

static int connect_to_launcher(void)
{
	struct sockaddr_in launcher = {.sin_family = AF_INET,
				       .sin_port = htons((uint16_t)setting("PGAS_PORT")),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&launcher, sizeof(launcher)))
		pgas_fail("cannot reach pgasrun: %m");
	return fd;
}

static void send_all(int fd, const void *data, size_t bytes)
{
	for (size_t sent = 0; sent < bytes;) {
		ssize_t n = write(fd, (const char *)data + sent, bytes - sent);

		if (n <= 0)
			pgas_fail("pgasrun went away");
		sent += (size_t)n;
	}
}

static void receive_all(int fd, void *data, size_t bytes)
{
	for (size_t got = 0; got < bytes;) {
		ssize_t n = read(fd, (char *)data + got, bytes - got);

		if (n <= 0)
			pgas_fail("pgasrun went away");
		got += (size_t)n;
	}
}

void pgas_exchange(const void *mine, void *all, size_t bytes)
{
	uint32_t head[2] = {(uint32_t)pgas.rank, (uint32_t)bytes};
	int fd = connect_to_launcher();

	send_all(fd, head, sizeof(head));
	send_all(fd, mine, bytes);
	receive_all(fd, all, bytes * (size_t)pgas.ranks);
	close(fd);
}

static void make_heap(struct pgas_heap *heap, size_t bytes, int access)
{
	heap->size = (bytes + 4095) & ~(size_t)4095;
	heap->base =
	    mmap(NULL, heap->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (heap->base == MAP_FAILED)
		pgas_fail("no memory for a heap of %zu bytes", heap->size);
	pgas_register(heap, access);
}

static void *allocate(struct pgas_heap *heap, size_t bytes)
{
	char *p = heap->base + heap->used;

	bytes = (bytes + 63) & ~(size_t)63;
	if (bytes > heap->size - heap->used)
		pgas_fail("a heap of %zu bytes is full", heap->size);
	heap->used += bytes;
	return p;
}

void *pgas_shared(size_t bytes)
{
	return allocate(&pgas.shared, bytes);
}

void *pgas_private(size_t bytes)
{
	return allocate(&pgas.private, bytes);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void pgas_start(size_t shared_bytes, size_t private_bytes)
{
	struct pgas_address mine = {0}, *all;
	int rank = (int)setting("PGAS_RANK"), ranks = (int)setting("PGAS_RANKS");

	if (ranks < 1 || ranks > PGAS_MAX_RANKS || rank < 0 || rank >= ranks)
		pgas_fail("rank %d of %d is not possible", rank, ranks);
	pgas_connect(rank, ranks);
	make_heap(&pgas.shared, shared_bytes + 65536,
		  IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		      IBV_ACCESS_REMOTE_ATOMIC);
	make_heap(&pgas.private, private_bytes + PGAS_STAGING + 4096, IBV_ACCESS_LOCAL_WRITE);
	pgas.staging = pgas_private(PGAS_STAGING);
	pgas.atomic_result = pgas_private(sizeof(uint64_t));
	pgas_make_sync();

	all = calloc((size_t)ranks, sizeof(*all));
	if (!all)
		pgas_fail("no memory");
	pgas_describe(&mine);
	pgas_exchange(&mine, all, sizeof(mine));
	for (int i = 0; i < ranks; i++)
		pgas_reach(i, &all[i]);
	free(all);
	/* All queue pairs must be ready before the first request is sent. */
	pgas_exchange(&mine.rkey, (uint32_t[PGAS_MAX_RANKS]){0}, sizeof(mine.rkey));
	pgas_barrier();
	pgas.started_ns = now_ns();
}

static void print_statistics(double seconds)
{
	fprintf(stderr,
		"pgas: rank=%d ranks=%d seconds=%.6f puts=%llu gets=%llu atomics=%llu bytes=%llu\n",
		pgas.rank, pgas.ranks, seconds, (unsigned long long)pgas.puts,
		(unsigned long long)pgas.gets, (unsigned long long)pgas.atomics,
		(unsigned long long)pgas.bytes);
}

int pgas_end(bool right)
{
	uint64_t done;

	pgas_barrier();
	done = now_ns();
	/*
	 * A peer that is still in the barrier needs our queue pairs: destroy them when all have
	 * left it.
	 */
	pgas_exchange(&pgas.rank, (int[PGAS_MAX_RANKS]){0}, sizeof(pgas.rank));
	if (getenv("PGAS_STATISTICS"))
		print_statistics((double)(done - pgas.started_ns) / 1e9);
	pgas_disconnect();
	return right ? 0 : 1;
}

int pgas_rank(void)
{
	return pgas.rank;
}

int pgas_ranks(void)
{
	return pgas.ranks;
}

long pgas_argument(int argc, char **argv, int n, long preset, long least, const char *usage)
{
	char *end;
	long value;

	if (n >= argc)
		return preset;
	value = strtol(argv[n], &end, 10);
	if (*end || end == argv[n] || value < least) {
		fprintf(stderr, "usage: %s\n", usage);
		exit(2);
	}
	return value;
}

const struct pgas_case *pgas_case(int argc, char **argv, const struct pgas_case *cases, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (argc < 2)
			puts(cases[i].name);
		else if (!strcmp(cases[i].name, argv[1]))
			return &cases[i];
	exit(argc < 2 ? 0 : 2);
}

bool pgas_result(bool right, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf(": %s\n", right ? "right" : "wrong");
	fflush(stdout);
	return right;
}

uint64_t pgas_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}
