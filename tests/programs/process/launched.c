/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * launched.c: what launchers give their processes, and what communication libraries do at their start.
 *
 *     launched inherited FD   talks through a descriptor that it has from its parent
 *     launched file PATH      follows a file that its parent changes, mapped for reading only
 *     launched unwritten      sends bytes of its stack that it never wrote
 *     launched code           maps its own file executable, further than it reaches
 *     launched segment        attaches a segment, and again at the same address, and detaches it
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int inherited(const char *fd)
{
	char line[100] = "";

	if (write(atoi(fd), "hello\n", 6) != 6 || read(atoi(fd), line, sizeof(line) - 1) <= 0)
		fail("inherited");
	printf("the launcher says %s", line);
	return 0;
}

/* The first word counts the parent's stores to the second one; 9 ends it. */
static int follow(const char *path)
{
	const _Atomic uint64_t *words;
	uint64_t seen = 0, sum = 0;
	int fd = open(path, O_RDONLY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		fail(path);
	words = check(mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0), "mmap");
	close(fd);
	while (seen < 9) {
		uint64_t now = atomic_load(&words[0]);

		if (now == seen) {
			usleep(1000);
			continue;
		}
		seen = now;
		sum = sum * 31 + seen * 1000 + atomic_load(&words[1]);
		printf("%llu: %llu\n", (unsigned long long)seen, (unsigned long long)sum);
		fflush(stdout);
	}
	return 0;
}

#define UNWRITTEN 1024

static void __attribute__((noinline)) send_unwritten(int fd, int round)
{
	char bytes[UNWRITTEN];

	/* As if it were written. */
	__asm__ volatile("" : : "r"(bytes) : "memory");
	bytes[0] = (char)round;
	if (write(fd, bytes, sizeof(bytes)) != sizeof(bytes))
		fail("write");
}

static int unwritten(void)
{
	char back[UNWRITTEN];
	struct timespec ts;
	int fds[2];

	if (pipe(fds))
		fail("pipe");
	for (int i = 0; i < 20; i++) {
		clock_gettime(CLOCK_REALTIME, &ts);
		if (i % 2)
			usleep(1);
		send_unwritten(fds[1], i);
		if (read(fds[0], back, sizeof(back)) != sizeof(back) || back[0] != i)
			fail("read");
	}
	return 0;
}

static int code(void)
{
	int fd = open("/proc/self/exe", O_RDONLY);
	struct stat st;
	char *at;

	if (fd < 0 || fstat(fd, &st))
		fail("/proc/self/exe");
	at = check(mmap(NULL, (size_t)st.st_size + (2 << 20), PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0), "mmap");
	printf("%.3s\n", at + 1);
	return 0;
}

static int segment(void)
{
	int id = shmget(IPC_PRIVATE, 8192, IPC_CREAT | 0600);
	char *at = shmat(id, NULL, 0), *again;

	shmctl(id, IPC_RMID, NULL);
	if (at == (void *)-1)
		fail("shmat");
	at[5000] = 7;
	again = shmat(id, at, SHM_REMAP);
	printf("again there: %d, has %d\n", again == at, again == at ? again[5000] : 0);
	printf("detached: %d\n", shmdt(at));
	printf("twice: %d\n", shmdt(at));
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "inherited") && argc == 3)
		return inherited(argv[2]);
	if (!strcmp(what, "file") && argc == 3)
		return follow(argv[2]);
	if (!strcmp(what, "unwritten"))
		return unwritten();
	if (!strcmp(what, "code"))
		return code();
	return strcmp(what, "segment") ? 2 : segment();
}
