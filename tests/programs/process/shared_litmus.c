/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shared_litmus.c: litmus tests of memory that two processes share.
 *
 *     shared_litmus PATTERN NAME 0|1 ROUNDS
 *
 * NAME is one of shared memory, or with a slash a file.  Both sides run the pattern's rounds, no further apart than its window.  All that a side loads goes
 * into a sum, which it prints at its end: what it found depends on who came first.  A side that
 * finds what x86 forbids says so, and ends with 1.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

#define SLOTS 256u /* more than twice the largest window */

/* What different sides store lies in different lines. */
struct shared {
	_Alignas(64) _Atomic uint64_t done[2][8];
	_Alignas(64) _Atomic uint64_t flag;
	_Alignas(64) _Atomic uint64_t words[2];
	_Alignas(64) _Atomic uint64_t lock;
	_Alignas(64) _Atomic uint64_t serving;
	_Alignas(64) uint64_t counter;
	_Alignas(64) _Atomic uint64_t head;
	_Alignas(64) _Atomic uint64_t tail;
	_Alignas(64) _Atomic uint64_t slot[2][SLOTS];
	_Alignas(64) _Atomic uint64_t found[2][SLOTS];
	_Alignas(64) uint64_t ring[64];
	_Alignas(4096) char bytes[8192];
};

struct record {
	uint64_t words[5];
};

struct side {
	struct shared *shared;
	const char *pattern;
	int me;
	uint64_t rounds, sum, kept;
};

static void found(struct side *s, uint64_t value)
{
	s->sum = (s->sum ^ value) * 0x9e3779b97f4a7c15u;
}

static _Noreturn void forbidden(const struct side *s, uint64_t round, uint64_t a, uint64_t b)
{
	printf("%s: side %d found what is forbidden in round %" PRIu64 ": %" PRIu64 ", %" PRIu64 "\n", s->pattern, s->me,
	       round, a, b);
	exit(1);
}

static void wait_until(const _Atomic uint64_t *word, uint64_t least)
{
	while (atomic_load_explicit(word, memory_order_acquire) < least)
		__builtin_ia32_pause();
}

/* A side that finds the flag finds the data as well. */
static void message(struct side *s, uint64_t n)
{
	struct shared *m = s->shared;
	uint64_t flag, data;

	if (s->me == 0) {
		atomic_store_explicit(&m->words[0], n, memory_order_relaxed);
		atomic_store_explicit(&m->flag, n, memory_order_release);
		return;
	}
	flag = atomic_load_explicit(&m->flag, memory_order_acquire);
	data = atomic_load_explicit(&m->words[0], memory_order_relaxed);
	if (data < flag)
		forbidden(s, n, flag, data);
	found(s, flag);
	found(s, data);
	s->kept += flag != data;
}

/* Each stores, then looks for the other's store: with a fence between, one at least finds it. */
static void buffering(struct side *s, uint64_t n)
{
	struct shared *m = s->shared;
	unsigned int at = n % SLOTS;
	uint64_t saw;

	atomic_store_explicit(&m->slot[s->me][at], n, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	saw = atomic_load_explicit(&m->slot[!s->me][at], memory_order_relaxed) == n;
	atomic_store_explicit(&m->found[s->me][at], 2 * n + saw, memory_order_release);
	found(s, saw);
	wait_until(&m->found[!s->me][at], 2 * n);
	if (!saw && atomic_load_explicit(&m->found[!s->me][at], memory_order_relaxed) == 2 * n)
		forbidden(s, n, saw, 0);
	s->kept += saw;
}

/* What is read between two equal even numbers belongs together. */
static void sequence(struct side *s, uint64_t n)
{
	struct shared *m = s->shared;
	uint64_t before, a, b;

	if (s->me == 0) {
		atomic_store_explicit(&m->flag, 2 * n - 1, memory_order_relaxed);
		atomic_thread_fence(memory_order_release);
		atomic_store_explicit(&m->words[0], n, memory_order_relaxed);
		atomic_store_explicit(&m->words[1], ~n, memory_order_relaxed);
		atomic_store_explicit(&m->flag, 2 * n, memory_order_release);
		return;
	}
	before = atomic_load_explicit(&m->flag, memory_order_acquire);
	a = atomic_load_explicit(&m->words[0], memory_order_relaxed);
	b = atomic_load_explicit(&m->words[1], memory_order_relaxed);
	found(s, before);
	found(s, a);
	found(s, b);
	atomic_thread_fence(memory_order_acquire);
	if (!before || before & 1 || atomic_load_explicit(&m->flag, memory_order_relaxed) != before)
		return;
	if (a != ~b || a != before / 2)
		forbidden(s, n, a, b);
	s->kept++;
}

/* A number that both count up under a lock. */
static void count(struct side *s)
{
	found(s, s->shared->counter);
	s->shared->counter++;
}

static void spin(struct side *s, uint64_t n)
{
	struct shared *m = s->shared;

	(void)n;
	while (atomic_exchange_explicit(&m->lock, 1, memory_order_acquire))
		while (atomic_load_explicit(&m->lock, memory_order_relaxed))
			__builtin_ia32_pause();
	count(s);
	atomic_store_explicit(&m->lock, 0, memory_order_release);
}

static void ticket(struct side *s, uint64_t n)
{
	struct shared *m = s->shared;
	uint64_t mine = atomic_fetch_add_explicit(&m->lock, 1, memory_order_relaxed);

	(void)n;
	while (atomic_load_explicit(&m->serving, memory_order_acquire) != mine)
		__builtin_ia32_pause();
	count(s);
	atomic_store_explicit(&m->serving, mine + 1, memory_order_release);
}

/* Without a lock. */
static void compare(struct side *s, uint64_t n)
{
	_Atomic uint64_t *counter = (_Atomic uint64_t *)&s->shared->counter;
	uint64_t old = atomic_load_explicit(counter, memory_order_relaxed);

	(void)n;
	while (!atomic_compare_exchange_weak(counter, &old, old + 1))
		s->kept++;
	found(s, old);
}

/* One puts numbers into a ring, the other takes them out. */
static void queue(struct side *s, uint64_t n)
{
	struct shared *m = s->shared;
	const uint64_t places = sizeof(m->ring) / sizeof(m->ring[0]);

	if (s->me == 0) {
		if (n > places)
			wait_until(&m->tail, n - places);
		m->ring[n % places] = n * n;
		atomic_store_explicit(&m->head, n, memory_order_release);
		return;
	}
	found(s, atomic_load_explicit(&m->head, memory_order_relaxed));
	wait_until(&m->head, n);
	if (m->ring[n % places] != n * n)
		forbidden(s, n, m->ring[n % places], n * n);
	atomic_store_explicit(&m->tail, n, memory_order_release);
}

/* The same with copies at odd addresses, one of which lies over two pages; who puts them in looks for room seldom. */
static void copies(struct side *s, uint64_t n)
{
	const uint64_t places = sizeof(s->shared->bytes) / sizeof(struct record) - 1;
	struct shared *m = s->shared;
	char *at = m->bytes + 3 + n % places * sizeof(struct record);
	struct record r;

	if (s->me == 0) {
		for (int w = 0; w < 5; w++)
			r.words[w] = n * n + (uint64_t)w;
		if (n > s->kept + places)
			wait_until(&m->tail, n - places / 2);
		if (n > s->kept + places)
			s->kept = n - places / 2;
		memcpy(at, &r, sizeof(r));
		atomic_store_explicit(&m->head, n, memory_order_release);
		return;
	}
	wait_until(&m->head, n);
	memcpy(&r, at, sizeof(r));
	for (int w = 0; w < 5; w++)
		if (r.words[w] != n * n + (uint64_t)w)
			forbidden(s, n, r.words[w], n * n + (uint64_t)w);
	found(s, atomic_load_explicit(&m->head, memory_order_relaxed));
	atomic_store_explicit(&m->tail, n, memory_order_release);
}

static const struct pattern {
	const char *name;
	void (*round)(struct side *, uint64_t n);
	uint64_t window;
	int counts; /* both sides together count up to twice the rounds */
} patterns[] = {
	{"message", message, 64, 0}, {"buffering", buffering, 1, 0}, {"sequence", sequence, 64, 0}, {"spin", spin, 64, 1},
	{"ticket", ticket, 64, 1},   {"compare", compare, 64, 1},    {"queue", queue, 64, 0},
	{"copies", copies, 1000, 0},
};

static const struct pattern *find(const char *name)
{
	for (unsigned int i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++)
		if (!strcmp(patterns[i].name, name))
			return &patterns[i];
	return NULL;
}

static void *map(const char *name)
{
	int fd = strchr(name, '/') ? open(name, O_RDWR | O_CREAT, 0600) : shm_open(name, O_RDWR | O_CREAT, 0600);
	void *p = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, sizeof(struct shared)))
		p = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return p == MAP_FAILED ? NULL : p;
}

int main(int argc, char **argv)
{
	const struct pattern *p = argc == 5 ? find(argv[1]) : NULL;
	struct side s = {0};

	if (!p)
		return 2;
	s = (struct side){check(map(argv[2]), argv[2]), p->name, atoi(argv[3]), strtoull(argv[4], NULL, 0), 0, 0};
	for (uint64_t n = 1; n <= s.rounds; n++) {
		if (n > p->window)
			wait_until(&s.shared->done[!s.me][0], n - p->window);
		p->round(&s, n);
		atomic_store_explicit(&s.shared->done[s.me][0], n, memory_order_release);
	}
	wait_until(&s.shared->done[!s.me][0], s.rounds);
	if (p->counts && s.shared->counter != 2 * s.rounds)
		forbidden(&s, s.rounds, s.shared->counter, 2 * s.rounds);
	printf("%s: side %d, %" PRIu64 " rounds: sum %016" PRIx64 ", kept %" PRIu64 "\n", p->name, s.me, s.rounds, s.sum,
	       s.kept);
	return 0;
}
