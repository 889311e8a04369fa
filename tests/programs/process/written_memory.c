/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * written_memory.c: two processes write into each other's private memory by process_vm_writev.
 *
 *     written_memory told|asleep|beside|alone NAME 0|1 ROUNDS
 *
 * In turns each writes a message, and then lets the other one know: by a number in shared memory for which that one
 * spins (`told`) or sleeps (`asleep`); or by the message's last word alone.  For that one the other spins, with a load from
 * shared memory in each turn, as MVAPICH2 does (`beside`), or with none (`alone`).  Of a message that comes in more than one
 * piece, pages in between stay as they are.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define WORDS 9001
#define PIECES 3

struct side {
	volatile uint64_t *volatile inbox; /* where that process has its private memory */
	_Atomic uint32_t number;
	pid_t pid;
	char apart[4096];
};

static struct side *map(const char *name)
{
	int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
	void *p;

	if (fd < 0 || ftruncate(fd, 2 * sizeof(struct side)))
		return NULL;
	p = mmap(NULL, 2 * sizeof(struct side), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static void write_to(const struct side *other, const uint64_t *words)
{
	char *to = (char *)other->inbox;
	struct iovec here[PIECES], there[PIECES];
	const size_t each = WORDS / PIECES * sizeof(*words), left = WORDS * sizeof(*words) - (PIECES - 1) * each;

	for (size_t i = 0; i < PIECES; i++) {
		here[i] = (struct iovec){(char *)words + i * each, i < PIECES - 1 ? each - 64 : left};
		there[i] = (struct iovec){to + i * each, here[i].iov_len};
	}
	if (process_vm_writev(other->pid, here, PIECES, there, PIECES, 0) < 0) {
		perror("process_vm_writev");
		exit(1);
	}
}

static void sleep_until(_Atomic uint32_t *number, uint32_t least)
{
	for (uint32_t now; (now = atomic_load(number)) < least;)
		syscall(SYS_futex, number, FUTEX_WAIT, now, NULL, NULL, 0);
}

static void wait_for(struct side *mine, uint32_t round, const char *how)
{
	if (!strcmp(how, "told")) {
		while (atomic_load(&mine->number) < round)
			;
	} else if (!strcmp(how, "asleep")) {
		sleep_until(&mine->number, round);
	} else if (!strcmp(how, "beside")) {
		while (mine->inbox[WORDS - 1] < round)
			;
	} else {
		volatile uint64_t *inbox = mine->inbox;

		while (inbox[WORDS - 1] < round)
			;
	}
}

static void tell(struct side *other, uint32_t round)
{
	atomic_store(&other->number, round);
	syscall(SYS_futex, &other->number, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint64_t sum_of(const volatile uint64_t *words)
{
	uint64_t sum = 0;

	for (size_t w = 0; w < WORDS; w++)
		sum = sum * 31 + words[w];
	return sum;
}

static uint64_t talk(struct side *mine, struct side *other, int me, uint32_t rounds, const char *how)
{
	static uint64_t words[WORDS];
	uint64_t sum = 0;

	for (uint32_t round = 1; round <= rounds; round++) {
		if (me || round > 1) {
			wait_for(mine, round - !me, how);
			sum = sum * 31 + sum_of(mine->inbox);
		}
		for (size_t w = 0; w < WORDS - 1; w++)
			words[w] = sum + w + (w ? 0 : (uint64_t)clock());
		words[WORDS - 1] = round;
		write_to(other, words);
		tell(other, round);
	}
	/* The other one may still write. */
	if (!me)
		wait_for(mine, rounds, how);
	return sum;
}

int main(int argc, char **argv)
{
	struct side *sides;
	int me;

	if (argc != 5)
		return 2;
	me = atoi(argv[3]);
	sides = check(map(argv[2]), "shared memory");
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	sides[me].pid = getpid();
	sides[me].inbox = (uint64_t *)check(calloc(WORDS + 5, sizeof(uint64_t)), "memory") + 5;
	while (!sides[!me].inbox)
		;
	printf("%llx\n", (unsigned long long)talk(&sides[me], &sides[!me], me, (uint32_t)strtoul(argv[4], NULL, 0), argv[1]));
	return 0;
}
