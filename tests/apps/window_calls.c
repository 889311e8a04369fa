/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * window_calls.c: memory that peers may write, in the hands of everybody else: the
 * kernel, libc, a forked child, and pages that are shared with other things.
 *
 *   window_calls FILE
 *
 * Prints what it found; runs on any device, no peer is needed.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define PAGE   4096
#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_pd *pd;

static uint64_t sum(const void *p, size_t n)
{
	const unsigned char *b = p;
	uint64_t s = 14695981039346656037u;

	while (n--)
		s = (s ^ *b++) * 1099511628211u;
	return s;
}

static void show(const char *what, const void *p, size_t n)
{
	printf("%s: %016llx\n", what, (unsigned long long)sum(p, n));
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static struct ibv_mr *window(void *p, size_t n)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, p, n, REMOTE);

	if (!mr || mr->addr != p)
		fail("ibv_reg_mr");
	return mr;
}

/* Where system calls put what they find, and take what they send. */
static void kernel(char *p, const char *file)
{
	int pair[2], fd = open(file, O_RDONLY);
	struct timespec *now = (void *)(p + 3 * PAGE + 64);
	ssize_t n;

	if (fd < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		fail(file);
	n = read(fd, p + 100, 2 * PAGE);
	printf("read %zd\n", n);
	show("of a file", p, 3 * PAGE);
	if (pread(fd, p + 1, 1, 0) != 1 && n > 0)
		printf("pread into a window fails\n");
	close(fd);
	memset(p + 5000, 7, 300);
	n = write(pair[0], p + 4900, 500);
	memset(p, 0, 600);
	printf("wrote %zd, read %zd\n", n, read(pair[1], p + 20, 500));
	show("of a socket", p, PAGE);
	close(pair[0]);
	close(pair[1]);
	if (getrandom(p + 2 * PAGE - 50, 100, 0) != 100)
		fail("getrandom");
	show("of chance", p, 3 * PAGE);
	clock_gettime(CLOCK_REALTIME, now);
	printf("at %lld.%09ld\n", (long long)now->tv_sec, now->tv_nsec);
	now->tv_sec = 0;
	now->tv_nsec = 1000;
	printf("nanosleep %d\n", nanosleep(now, NULL));
}

/* A child has the memory, too, and leaves its parent's alone. */
static void child(char *p)
{
	pid_t pid;
	int status = 0;

	strcpy(p, "the parent's");
	pid = fork();
	if (!pid) {
		int right = !strcmp(p, "the parent's");

		strcpy(p, "the child's");
		_exit(right && !strcmp(p, "the child's") ? 3 : 4);
	}
	waitpid(pid, &status, 0);
	printf("child %d, %s\n", WEXITSTATUS(status), p);
}

/* Neighbours on the heap: a window shares its pages with what is not one. */
static void neighbours(void)
{
	enum { BLOCKS = 64 };
	char *blocks[BLOCKS];
	struct ibv_mr *mrs[BLOCKS];
	uint64_t total = 0;

	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(100 + (size_t)i);
		memset(blocks[i], i, 100 + (size_t)i);
		mrs[i] = i % 3 ? NULL : window(blocks[i], 100 + (size_t)i);
	}
	for (int i = 0; i < BLOCKS; i++) {
		for (int k = 0; k < 100; k++)
			total += (unsigned char)blocks[i][k] == i;
		if (mrs[i] && i % 2)
			ibv_dereg_mr(mrs[i]);
		free(blocks[i]); /* some are still registered */
	}
	for (int i = 0; i < BLOCKS; i++) {
		blocks[i] = calloc(1, 150);
		total += blocks[i][i] == 0;
	}
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	for (int i = 0; i < BLOCKS; i += 6)
		ibv_dereg_mr(mrs[i]);
	printf("neighbours: %llu\n", (unsigned long long)total);
}

static void mappings(void)
{
	size_t size = 16 * PAGE;
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = window(p, size);
	char *again;

	memset(p, 9, size);
	show("a mapping", p, size);
	munmap(p + 4 * PAGE, 4 * PAGE);
	again = mmap(p + 4 * PAGE, 4 * PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	show("with new pages", p, size);
	again[5] = 1;
	ibv_dereg_mr(mr);
	show("with new pages, no longer registered", p, size);
	mr = window(p, size);
	memcpy(p, p + PAGE, 3000);
	ibv_dereg_mr(mr);
	show("registered again", p, size);
	munmap(p, size);
}

static void shared(void)
{
	char *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr = window(p, PAGE);

	strcpy(p, "compared, not frozen");
	if (getrandom(p + 100, 8, 0) != 8)
		fail("getrandom");
	show(p, p, PAGE);
	ibv_dereg_mr(mr);
}

int main(int argc, char **argv)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	char *p = aligned_alloc(PAGE, 4 * PAGE);
	struct ibv_mr *mr, *twice;

	if (argc < 2 || !context || !(pd = ibv_alloc_pd(context)))
		fail("no device");
	memset(p, 1, 4 * PAGE);
	mr = window(p + 10, 4 * PAGE - 20);
	twice = ibv_reg_mr(pd, p + PAGE, PAGE, IBV_ACCESS_LOCAL_WRITE);
	kernel(p, argv[1]);
	child(p);
	ibv_dereg_mr(mr);
	show("half of it registered", p, PAGE);
	ibv_dereg_mr(twice);
	free(p);
	neighbours();
	mappings();
	shared();
	ibv_dealloc_pd(pd);
	ibv_close_device(context);
	ibv_free_device_list(list);
	return 0;
}
