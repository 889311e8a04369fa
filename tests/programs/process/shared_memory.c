/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared_memory.c: two processes talk through shared memory, by plain loads and stores.
 *
 *     shared_memory posix|late|drawn|system-v|copied|locked|futex|spread NAME 0|1 ROUNDS
 *
 * In turns each writes a message that depends on the last one and on the time, and then its number.
 * The other waits for the number without any call, and reads the message.  With `copied` it also
 * reads it from the other's mapping by process_vm_readv, and writes a word of it back.  With
 * `locked` both take locks of all kinds that lie in the memory, in the order that comes; each
 * process has one thread.  With `futex` it sleeps until the other wakes it.  With `drawn` it lies at
 * an address as MPICH draws it: here one between the mappings that sreplay places for itself.  With
 * `late` 1,100 others were mapped and unmapped before, as by a program that makes windows again and again.  With
 * `spread` one polls words of two pages in turn, for long, and the other changes them all at once.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
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
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define WORDS 64

struct side {
	_Atomic uint64_t number;
	_Atomic uint32_t bell;
	uint64_t message[WORDS];
	pid_t pid;
	struct side *sides; /* where that process has it */
	_Alignas(64) char apart[4096];
};

struct locks {
	pthread_mutex_t mutex;
	pthread_rwlock_t rwlock;
	pthread_spinlock_t spin;
	sem_t sem;
	_Atomic uint32_t ready, asked[2]; /* asked: a flag that its owner clears by compare and exchange */
	uint64_t sum;
};

static struct side *map_posix(const char *name, void *at)
{
	int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
	void *p;

	if (fd < 0 || ftruncate(fd, 2 * sizeof(struct side)))
		return NULL;
	p = mmap(at, 2 * sizeof(struct side), PROT_READ | PROT_WRITE,
		 MAP_SHARED | (at ? MAP_FIXED_NOREPLACE : 0), fd, 0);
	close(fd);
	return p == MAP_FAILED ? NULL : p;
}

static struct side *map_system_v(const char *name)
{
	int id = shmget((key_t)strtoul(name, NULL, 0), 2 * sizeof(struct side), IPC_CREAT | 0600);
	void *p = shmat(id, NULL, 0);

	return p == (void *)-1 ? NULL : p;
}

static void map_others(const char *name)
{
	char other[64];

	snprintf(other, sizeof(other), "%s-%d", name, (int)getpid());
	for (int i = 0; i < 1100; i++) {
		munmap(check(map_posix(other, NULL), "another mapping"), 2 * sizeof(struct side));
		shm_unlink(other);
	}
}

static struct side *map(const char *how, const char *name)
{
	if (!strcmp(how, "late"))
		map_others(name);
	if (!strcmp(how, "system-v"))
		return map_system_v(name);
	return map_posix(name, strcmp(how, "drawn") ? NULL : (void *)0x6800409c0000);
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

/* Until the bell has another number; the older call and the newer one take turns. */
static void sleep_at(_Atomic uint32_t *bell, uint32_t number, bool newer)
{
	struct futex_waitv word = {.uaddr = (uintptr_t)bell, .val = number, .flags = FUTEX_32};

	if (newer && !syscall(SYS_futex_waitv, &word, 1, 0, NULL, 0))
		return;
	if (newer && errno == EFAULT)
		abort();
	if (!newer || errno == ENOSYS)
		syscall(SYS_futex, bell, FUTEX_WAIT, number, NULL, NULL, 0);
}

static void wait_for(struct side *other, uint64_t number, bool sleeps)
{
	for (;;) {
		uint32_t bell = atomic_load(&other->bell);

		if (atomic_load_explicit(&other->number, memory_order_acquire) >= number)
			return;
		if (sleeps)
			sleep_at(&other->bell, bell, number % 2);
	}
}

static void tell(struct side *mine, uint64_t number, bool sleeps)
{
	atomic_store_explicit(&mine->number, number, memory_order_release);
	if (!sleeps)
		return;
	atomic_fetch_add(&mine->bell, 1);
	syscall(SYS_futex, &mine->bell, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint64_t talk(struct side *mine, struct side *other, int me, uint64_t rounds, bool copies, bool sleeps)
{
	uint64_t words[WORDS];
	uint64_t sum = 0;

	for (uint64_t i = 1; i <= rounds; i++) {
		if (me == 1 || i > 1)
			wait_for(other, i - !me, sleeps);
		if (copies && (me || i > 1))
			sum = sum * 31 + copy(other, !me, words);
		for (int w = 0; w < WORDS; w++)
			sum = sum * 31 + other->message[w];
		for (int w = 0; w < WORDS; w++)
			mine->message[w] = sum + (uint64_t)w + (w ? 0 : (uint64_t)clock());
		tell(mine, i, sleeps);
	}
	/* The other one still copies. */
	wait_for(other, rounds, sleeps);
	return sum;
}

static void make_locks(struct locks *l)
{
	pthread_mutexattr_t mutex;
	pthread_rwlockattr_t rwlock;

	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&l->mutex, &mutex);
	pthread_rwlockattr_init(&rwlock);
	pthread_rwlockattr_setpshared(&rwlock, PTHREAD_PROCESS_SHARED);
	pthread_rwlock_init(&l->rwlock, &rwlock);
	pthread_spin_init(&l->spin, PTHREAD_PROCESS_SHARED);
	sem_init(&l->sem, 1, 1);
	atomic_store(&l->ready, 1);
}

static void wait_until_asked(struct locks *l, int me)
{
	uint32_t one;

	do
		one = 1;
	while (!atomic_compare_exchange_strong(&l->asked[me], &one, 0));
}

/* Every 16th time each waits for the other. */
static uint64_t take_locks(struct locks *l, int me, uint64_t rounds)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < rounds; i++) {
		pthread_mutex_lock(&l->mutex);
		sum = sum * 31 + (l->sum = l->sum * 31 + (uint64_t)me);
		pthread_mutex_unlock(&l->mutex);
		pthread_spin_lock(&l->spin);
		sum = sum * 31 + (l->sum = l->sum * 37 + (uint64_t)me);
		pthread_spin_unlock(&l->spin);
		pthread_rwlock_wrlock(&l->rwlock);
		sum = sum * 31 + (l->sum = l->sum * 41 + (uint64_t)me);
		pthread_rwlock_unlock(&l->rwlock);
		sem_wait(&l->sem);
		sum = sum * 31 + (l->sum = l->sum * 43 + (uint64_t)me);
		sem_post(&l->sem);
		if (i % 16)
			continue;
		while (atomic_load(&l->asked[!me]))
			;
		atomic_store(&l->asked[!me], 1);
		wait_until_asked(l, me);
	}
	return sum;
}

/* Two words in each of two pages. */
struct spread {
	_Atomic uint64_t *word[4];
};

static struct spread spread_over(struct side *side)
{
	char *begin = side->apart, *end = begin + sizeof(side->apart);

	return (struct spread){{(void *)begin, (void *)(begin + 64), (void *)(end - 64), (void *)(end - 8)}};
}

/* Without a call.  The registers come back, but not soon.  Returns a sum over the turns that brought something new. */
static uint64_t poll_all(const struct spread *s, uint64_t number)
{
	uint64_t turn = 0, sum = 0, seen = 0, found[4];

	do {
		turn = (turn + 1) % 32;
		for (int w = 0; w < 4; w++)
			found[w] = atomic_load_explicit(s->word[w], memory_order_relaxed);
		/* The compiler keeps the turn in a register. */
		__asm__ volatile("" : "+r"(turn));
		if (found[0] + found[1] + found[2] + found[3] == seen)
			continue;
		seen = found[0] + found[1] + found[2] + found[3];
		sum = sum * 31 + seen;
	} while (found[0] >> 32 < number || found[1] >> 32 < number || found[2] >> 32 < number || found[3] >> 32 < number);
	return sum;
}

/* Until the process has used so much time of its processor: by then its pages are snapshots. */
static void let_run(pid_t pid, long milliseconds)
{
	struct timespec now, pause = {.tv_nsec = 1000000};
	clockid_t clock;
	int64_t until = 0;

	if (clock_getcpuclockid(pid, &clock))
		fail("clock_getcpuclockid");
	do {
		if (clock_gettime(clock, &now))
			fail("clock_gettime");
		if (!until)
			until = now.tv_sec * 1000000000 + now.tv_nsec + milliseconds * 1000000;
		nanosleep(&pause, NULL);
	} while (now.tv_sec * 1000000000 + now.tv_nsec < until);
}

static uint64_t poll_spread(struct side *sides, int me, uint64_t rounds)
{
	const struct spread s = spread_over(&sides[1]);
	uint64_t sum = 0;

	for (uint64_t i = 1; i <= rounds; i++) {
		if (!me) {
			tell(&sides[0], i, false);
			sum = sum * 31 + poll_all(&s, i);
			continue;
		}
		wait_for(&sides[0], i, false);
		let_run(sides[0].pid, 100);
		for (int w = 0; w < 4; w++)
			atomic_store_explicit(s.word[w], (i << 32) + (uint32_t)clock(), memory_order_relaxed);
	}
	return sum;
}

int main(int argc, char **argv)
{
	struct side *sides;
	int me;

	if (argc != 5)
		return 2;
	me = atoi(argv[3]);
	sides = check(map(argv[1], argv[2]), "shared memory");
	if (!strcmp(argv[1], "locked")) {
		struct locks *l = (struct locks *)sides[0].apart;

		if (!me)
			make_locks(l);
		while (!atomic_load(&l->ready))
			;
		printf("%llx\n", (unsigned long long)take_locks(l, me, strtoull(argv[4], NULL, 0)));
		return 0;
	}
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	sides[me].pid = getpid();
	sides[me].sides = sides;
	if (!strcmp(argv[1], "spread")) {
		printf("%llx\n", (unsigned long long)poll_spread(sides, me, strtoull(argv[4], NULL, 0)));
		return 0;
	}
	printf("%llx\n",
	       (unsigned long long)talk(&sides[me], &sides[!me], me, strtoull(argv[4], NULL, 0),
					!strcmp(argv[1], "copied"), !strcmp(argv[1], "futex")));
	return 0;
}
