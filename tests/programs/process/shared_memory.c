/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared_memory.c: two processes talk through shared memory, by plain loads and stores.
 *
 *     shared_memory posix|system-v|copied NAME 0|1 ROUNDS
 *
 * In turns each writes a message that depends on the last one and on the time, and then its number.
 * The other waits for the number without any call, and reads the message.  With `copied` it also
 * reads it from the other's mapping by process_vm_readv, and writes a word of it back.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define WORDS 64

struct side {
	_Atomic uint64_t number;
	uint64_t message[WORDS];
	pid_t pid;
	struct side *sides; /* where that process has it */
	char apart[4096];
};

static struct side *map_posix(const char *name)
{
	int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
	void *p;

	if (fd < 0 || ftruncate(fd, 2 * sizeof(struct side)))
		return NULL;
	p = mmap(NULL, 2 * sizeof(struct side), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static struct side *map_system_v(const char *name)
{
	int id = shmget((key_t)strtoul(name, NULL, 0), 2 * sizeof(struct side), IPC_CREAT | 0600);
	void *p = shmat(id, NULL, 0);

	return p == (void *)-1 ? NULL : p;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

/* Copies from and to the other's memory; returns what it brought. */
static uint64_t copy(const struct side *other, int whose, uint64_t *words)
{
	struct iovec here = {words, WORDS * sizeof(*words)},
		     there = {other->sides[whose].message, WORDS * sizeof(*words)};
	uint64_t sum = 0;

	if (process_vm_readv(other->pid, &here, 1, &there, 1, 0) != (ssize_t)here.iov_len)
		fail("process_vm_readv");
	for (int w = 0; w < WORDS; w++)
		sum = sum * 31 + words[w];
	here.iov_len = there.iov_len = sizeof(*words);
	if (process_vm_writev(other->pid, &here, 1, &there, 1, 0) != (ssize_t)here.iov_len)
		fail("process_vm_writev");
	return sum;
}

static uint64_t talk(struct side *mine, struct side *other, int me, uint64_t rounds, bool copies)
{
	uint64_t words[WORDS];
	uint64_t sum = 0;

	for (uint64_t i = 1; i <= rounds; i++) {
		if (me == 1 || i > 1)
			while (atomic_load_explicit(&other->number, memory_order_acquire) < i - !me)
				;
		if (copies && (me || i > 1))
			sum = sum * 31 + copy(other, !me, words);
		for (int w = 0; w < WORDS; w++)
			sum = sum * 31 + other->message[w];
		for (int w = 0; w < WORDS; w++)
			mine->message[w] = sum + (uint64_t)w + (w ? 0 : (uint64_t)clock());
		atomic_store_explicit(&mine->number, i, memory_order_release);
	}
	/* The other one still copies. */
	while (atomic_load_explicit(&other->number, memory_order_acquire) < rounds)
		;
	return sum;
}

int main(int argc, char **argv)
{
	struct side *sides;
	int me;

	if (argc != 5)
		return 2;
	me = atoi(argv[3]);
	sides = check(strcmp(argv[1], "system-v") ? map_posix(argv[2]) : map_system_v(argv[2]),
		      "shared memory");
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	sides[me].pid = getpid();
	sides[me].sides = sides;
	printf("%llx\n",
	       (unsigned long long)talk(&sides[me], &sides[!me], me, strtoull(argv[4], NULL, 0),
					!strcmp(argv[1], "copied")));
	return 0;
}
