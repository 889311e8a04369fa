/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * random_atomics.c: threads that decide by plain atomics, plain loads and stores, spins and futexes who
 * does what; a seed determines which steps each of them takes, and the machine what they find.
 *
 *     random_atomics SEED [THREADS [STEPS [NAME,NAME...]]]
 *
 * Each thread takes STEPS random steps, with a barrier after some of them, and mixes what it found into
 * a number of its own, which it prints.  It differs from run to run.  With names only these steps.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 16
#define CELLS	    8

struct thread {
	int number;
	uint64_t random, found;
	pthread_t id;
};

static int n_threads = 8, steps = 12;
static const char *only;

static _Alignas(64) _Atomic uint64_t cells[CELLS];
static _Alignas(64) atomic_int spin_lock;
static _Alignas(64) _Atomic uint32_t next_ticket, now_serving;
static _Alignas(64) _Atomic uint32_t futex_lock;
static _Alignas(64) _Atomic uint32_t arrived, phase;
static uint64_t guarded[4], spun_in_memory;
static volatile uint64_t plain[THREADS_MAX];

static uint64_t draw(struct thread *t)
{
	t->random ^= t->random << 13;
	t->random ^= t->random >> 7;
	t->random ^= t->random << 17;
	return t->random * 0x2545f4914f6cdd1dull >> 16;
}

static void note(struct thread *t, uint64_t what)
{
	t->found = (t->found ^ what) * 0x100000001b3u + 1;
}

static long sys_futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
	return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* ------------------------------------------------------------------------ steps */

static void adds(struct thread *t)
{
	for (int i = 0; i < 50; i++)
		note(t, atomic_fetch_add(&cells[draw(t) % CELLS], 1));
}

static void exchanges(struct thread *t)
{
	_Atomic uint64_t *cell = &cells[draw(t) % CELLS];
	uint64_t was = atomic_load(cell), tries = 0;

	while (!atomic_compare_exchange_weak(cell, &was, was * 3 + (uint64_t)t->number))
		tries++;
	note(t, was + tries);
}

static void work(uint64_t n)
{
	uint64_t x = n;

	for (uint64_t i = 0; i < n; i++)
		x = x * 6364136223846793005ull + i;
	if (x == 42)
		puts("unlikely");
}

/* Most take some microseconds, few some milliseconds. */
static uint64_t some_work(struct thread *t)
{
	uint64_t n = draw(t) % 16;

	return n ? 1000 * n : 4000000 + draw(t) % 8000000;
}

static void spins_for_lock(struct thread *t)
{
	while (atomic_exchange(&spin_lock, 1))
		while (atomic_load(&spin_lock))
			__builtin_ia32_pause();
	guarded[0] = guarded[0] * 31 + (uint64_t)t->number;
	work(some_work(t));
	note(t, guarded[0]);
	atomic_store(&spin_lock, 0);
}

static void takes_ticket(struct thread *t)
{
	uint32_t mine = atomic_fetch_add(&next_ticket, 1);

	while (atomic_load(&now_serving) != mine)
		;
	guarded[1] = guarded[1] * 31 + (uint64_t)t->number;
	note(t, guarded[1]);
	atomic_store(&now_serving, mine + 1);
}

static void locks_by_futex(struct thread *t)
{
	uint32_t free = 0;

	if (!atomic_compare_exchange_strong(&futex_lock, &free, 1))
		while (atomic_exchange(&futex_lock, 2))
			sys_futex(&futex_lock, FUTEX_WAIT, 2);
	guarded[2] = guarded[2] * 31 + (uint64_t)t->number;
	if (draw(t) % 4 == 0)
		usleep(100);
	note(t, guarded[2]);
	if (atomic_exchange(&futex_lock, 0) == 2)
		sys_futex(&futex_lock, FUTEX_WAKE, 1);
}

/* Stores its own and loads those of others, without any order. */
static void stores_and_loads(struct thread *t)
{
	for (int i = 0; i < 20; i++) {
		plain[t->number] = draw(t);
		note(t, plain[draw(t) % (uint64_t)n_threads]);
	}
}

static void computes(struct thread *t)
{
	work(some_work(t));
}

/* What the others did meanwhile, seen from a loop that computes. */
static void computes_and_looks(struct thread *t)
{
	uint64_t n = some_work(t), sum = 0;
	_Atomic uint64_t *cell = &cells[draw(t) % CELLS];

	for (uint64_t i = 0; i < n; i++)
		sum = sum * 5 + atomic_load_explicit(cell, memory_order_relaxed);
	note(t, sum);
}

static void calls(struct thread *t)
{
	struct timespec ts;

	switch (draw(t) % 4) {
	case 0:
		clock_gettime(CLOCK_MONOTONIC, &ts);
		note(t, (uint64_t)ts.tv_nsec);
		break;
	case 1:
		sched_yield();
		break;
	case 2:
		usleep((useconds_t)(draw(t) % 300));
		break;
	default:
		note(t, (uint64_t)getppid());
	}
}

static void allocates(struct thread *t)
{
	for (int i = 0; i < 10; i++) {
		char *p = malloc(16 + draw(t) % 2000);

		note(t, (uintptr_t)p);
		free(p);
	}
}

/* --------------------------------------------- barriers: all threads take them together */

/* How the thread waits for the others. */
static void await(struct thread *t, uint32_t was, unsigned int how)
{
	uint64_t turns = 0;

	switch (how % 5) {
	case 0:
		while (atomic_load(&phase) == was)
			__builtin_ia32_pause();
		break;
	case 1: /* the turns are counted in a register, and tell */
		while (atomic_load(&phase) == was)
			turns++;
		note(t, turns);
		break;
	case 2: /* ... in memory, and tell */
		while (atomic_load_explicit(&phase, memory_order_acquire) == was)
			__atomic_fetch_add(&spun_in_memory, 1, __ATOMIC_RELAXED);
		note(t, __atomic_load_n(&spun_in_memory, __ATOMIC_RELAXED));
		break;
	case 3:
		while (atomic_load(&phase) == was)
			sched_yield();
		break;
	default:
		while (atomic_load(&phase) == was)
			sys_futex(&phase, FUTEX_WAIT, was);
	}
}

static void barrier(struct thread *t, unsigned int how)
{
	uint32_t was = atomic_load(&phase);

	if (atomic_fetch_add(&arrived, 1) + 1 < (uint32_t)n_threads) {
		await(t, was, how);
		return;
	}
	note(t, 77);
	atomic_store(&arrived, 0);
	atomic_store(&phase, was + 1);
	sys_futex(&phase, FUTEX_WAKE, INT32_MAX);
}

/* ------------------------------------------------------------------------- program */

static const struct step {
	const char *name;
	void (*take)(struct thread *t);
} all_steps[] = {
    {"adds", adds},
    {"exchanges", exchanges},
    {"spins_for_lock", spins_for_lock},
    {"takes_ticket", takes_ticket},
    {"locks_by_futex", locks_by_futex},
    {"stores_and_loads", stores_and_loads},
    {"computes", computes},
    {"computes_and_looks", computes_and_looks},
    {"calls", calls},
    {"allocates", allocates},
    {"barrier", NULL},
};

#define STEPS (sizeof(all_steps) / sizeof(all_steps[0]))

static bool is_wanted(const struct step *s)
{
	return !only || strstr(only, s->name);
}

static uint64_t seed;

/* Which steps are barriers, and how each thread waits there, the threads have in common. */
static void *run(void *argument)
{
	struct thread *t = argument, common = {.random = seed * 0x9e3779b97f4a7c15ull + 1};

	for (int i = 0; i < steps; i++) {
		const struct step *s = &all_steps[draw(t) % (STEPS - 1)];
		bool meets = draw(&common) % 3 == 0;
		unsigned int how = (unsigned int)(draw(&common) + (uint64_t)t->number * (draw(&common) % 2));

		if (is_wanted(s))
			s->take(t);
		if (meets && is_wanted(&all_steps[STEPS - 1]))
			barrier(t, how);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static struct thread threads[THREADS_MAX];

	seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
	if (argc > 2)
		n_threads = atoi(argv[2]);
	if (argc > 3)
		steps = atoi(argv[3]);
	only = argc > 4 ? argv[4] : NULL;
	if (n_threads < 1 || n_threads > THREADS_MAX)
		return 2;
	for (int i = 0; i < n_threads; i++) {
		threads[i] = (struct thread){.number = i, .random = (seed * 64 + (uint64_t)i) * 0x9e3779b97f4a7c15ull + 7};
		if (pthread_create(&threads[i].id, NULL, run, &threads[i]))
			return 3;
	}
	for (int i = 0; i < n_threads; i++) {
		pthread_join(threads[i].id, NULL);
		printf("thread %d found %016llx\n", i, (unsigned long long)threads[i].found);
	}
	for (int i = 0; i < CELLS; i++)
		printf("cell %d: %llu\n", i, (unsigned long long)cells[i]);
	return 0;
}
