/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * computes.c: threads that compute, and threads that wait for each other.
 *
 *     computes CASE [THREADS [MS]]
 *
 *     sums   each thread computes for MS milliseconds or so without a call
 *     steps  the same, but all meet at a barrier after each millisecond or so
 *     pool   threads take tasks of some milliseconds from a queue with a lock
 *     deep   each allocates, then computes far below on the stack, beside memory that it never wrote
 *     locks  each takes a lock, then computes far below on the stack, in words of which it writes a part
 *     made   each computes for MS milliseconds, with four calls in between, in code that is in no file
 *
 * computes_atomics has these as well:
 *
 *     flags  threads hand a flag on and count how often they looked at it, which differs from run to run
 *     open   the same; each can be cancelled at any instruction, and is not (LLVM's OpenMP has its threads so)
 *     mapped the same, in a copy of the code that is mapped from the file behind the last call (V8 has its builtins so)
 *     shares threads take pieces by an atomic and compute each; who gets which differs from run to run
 *     turns  one after the other makes a thousand calls, while those that have not spin; when each ended differs from run to run
 *     draws  the first draws random numbers, without anything else between two; the others sleep for a millisecond again and
 *            again, and count how often: until it has ended, which differs from run to run
 *     stop   one computes until another one stops it by a plain store; how far it got differs from run to run
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define THREADS_MAX 64
#define TASKS	    100
/* About so many turns of the loop are a millisecond. */
#define TURNS 400000ull

static int n_threads = 2;
static uint64_t ms = 300;
static uint64_t found[THREADS_MAX];
static pthread_barrier_t barrier;

static __attribute__((noinline)) uint64_t compute(uint64_t x, uint64_t turns)
{
	for (uint64_t i = 0; i < turns; i++)
		x = (x ^ i) * 6364136223846793005ull + (x >> 29);
	return x;
}

static void sums(int me)
{
	found[me] = compute((uint64_t)me, ms * TURNS);
}

static void steps(int me)
{
	for (uint64_t i = 0; i < ms; i++) {
		found[me] = compute(found[me] + (uint64_t)me, TURNS);
		pthread_barrier_wait(&barrier);
	}
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t next_task, sum;

static void pool(int me)
{
	for (;;) {
		uint64_t task, x;

		pthread_mutex_lock(&lock);
		task = next_task++;
		pthread_mutex_unlock(&lock);
		if (task >= TASKS)
			return;
		x = compute(task, ms * TURNS / TASKS);
		pthread_mutex_lock(&lock);
		sum = sum * 3 + x;
		pthread_mutex_unlock(&lock);
		found[me]++;
	}
}

static __attribute__((noinline)) uint64_t compute_deep(uint64_t x, uint64_t turns)
{
	volatile char unwritten[6000];

	unwritten[sizeof(unwritten) - 1] = (char)x;
	for (uint64_t i = 0; i < turns; i++)
		x = (x ^ i) * 6364136223846793005ull + (x >> 29);
	return x + (uint64_t)unwritten[sizeof(unwritten) - 1];
}

static void deep(int me)
{
	for (uint64_t i = 0; i < 5; i++) {
		void *p = malloc(100 + 10 * (size_t)me);

		found[me] += compute_deep(i, ms * TURNS / 5);
		free(p);
	}
}

/* Of each word it writes three bytes, and what is in the others is not its own. */
static __attribute__((noinline)) uint64_t compute_partly(uint64_t x, uint64_t turns)
{
	volatile char partly[9000];

	for (uint64_t i = 0; i < turns; i++) {
		volatile char *word = partly + 8 * (x % 1000);

		word[0] = word[1] = word[2] = (char)i;
		x = (x ^ i) * 6364136223846793005ull + (uint64_t)word[i % 3];
	}
	return x;
}

static void locks(int me)
{
	static pthread_mutex_t mutex[THREADS_MAX];

	for (uint64_t i = 0; i < 20; i++) {
		pthread_mutex_lock(&mutex[me]);
		found[me] += compute_partly(i, ms * TURNS / 60);
		pthread_mutex_unlock(&mutex[me]);
	}
}

static void compute_in_made_code(int me, int prot)
{
	const size_t size = 256;
	void *code = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct timespec now;

	if (code == MAP_FAILED)
		exit(4);
	memcpy(code, (const void *)(uintptr_t)compute, size);
	mprotect(code, size, prot);
	for (int i = 0; i < 5; i++) {
		found[me] = ((__typeof__(&compute))(uintptr_t)code)(found[me] + (uint64_t)me, ms * TURNS / 5);
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
}

static void made(int me)
{
	compute_in_made_code(me, PROT_READ | PROT_EXEC);
}

static void writable(int me)
{
	compute_in_made_code(me, PROT_READ | PROT_WRITE | PROT_EXEC);
}

#ifdef WITH_ATOMICS
static _Alignas(64) _Atomic uint64_t flag;

/* Refers to nothing but what it gets. */
static __attribute__((noinline)) uint64_t hand_on(_Atomic uint64_t *at, uint64_t me, uint64_t n, uint64_t rounds)
{
	uint64_t x = 0;

	for (uint64_t i = 0; i < rounds; i++) {
		uint64_t looks = 0;

		while (atomic_load_explicit(at, memory_order_acquire) % n != me)
			looks++;
		x = x * 31 + looks;
		atomic_fetch_add(at, 1);
	}
	return x;
}

static void flags(int me)
{
	found[me] = hand_on(&flag, (uint64_t)me, (uint64_t)n_threads, ms);
}

extern const char __executable_start[];

static void mapped(int me)
{
	const uintptr_t page = 4096, at = (uintptr_t)hand_on, from = (at - (uintptr_t)__executable_start) & ~(page - 1);
	int fd = open("/proc/self/exe", O_RDONLY);
	char *copy = mmap(NULL, 2 * page, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, (off_t)from);

	if (copy == MAP_FAILED)
		exit(4);
	found[me] = ((__typeof__(&hand_on))(uintptr_t)(copy + (at & (page - 1))))(&flag, (uint64_t)me, (uint64_t)n_threads, ms);
}

static void open_to_cancellation(int me)
{
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	flags(me);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
}

static void shares(int me)
{
	while (atomic_fetch_add(&flag, 1) < ms) {
		found[me]++;
		sum += compute(found[me], TURNS) & 1;
	}
}

/* The work between two calls is a fortieth of a millisecond or so. */
static void turns(int me)
{
	struct timespec now = {0};

	while (atomic_load_explicit(&flag, memory_order_acquire) != (uint64_t)me)
		;
	for (int i = 0; i < 1000; i++) {
		sum += compute((uint64_t)i, TURNS / 40) & 1;
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
	found[me] = (uint64_t)now.tv_nsec;
	atomic_fetch_add(&flag, 1);
}

static atomic_int stopped;

static void stop(int me)
{
	uint64_t x = 0;

	if (!me) {
		found[me] = compute(0, ms * TURNS);
		atomic_store(&stopped, 1);
		return;
	}
	while (!atomic_load_explicit(&stopped, memory_order_relaxed))
		x = (x ^ found[me]++) * 6364136223846793005ull + (x >> 29);
	sum += x & 1;
}

static void draws(int me)
{
	const struct timespec a_ms = {.tv_nsec = 1000000};

	if (!me) {
		for (uint64_t i = 0; i < ms * TURNS / 16; i++)
			found[me] += (uint64_t)rand();
		atomic_store(&stopped, 1);
		return;
	}
	for (; !atomic_load(&stopped); found[me]++)
		nanosleep(&a_ms, NULL);
}
#endif

static const struct {
	const char *name;
	void (*run)(int me);
} cases[] = {
    {"sums", sums},   {"steps", steps}, {"pool", pool}, {"deep", deep}, {"locks", locks}, {"made", made}, {"writable", writable},
#ifdef WITH_ATOMICS
    {"flags", flags}, {"open", open_to_cancellation}, {"mapped", mapped}, {"shares", shares}, {"turns", turns}, {"stop", stop}, {"draws", draws},
#endif
};

static void (*run)(int me);

static void *start(void *argument)
{
	run((int)(intptr_t)argument);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t id[THREADS_MAX];

	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name))
			run = cases[i].run;
	if (argc > 2)
		n_threads = atoi(argv[2]);
	if (argc > 3)
		ms = strtoull(argv[3], NULL, 10);
	if (!run || n_threads < 1 || n_threads > THREADS_MAX)
		return 2;
	pthread_barrier_init(&barrier, NULL, (unsigned int)n_threads);
	for (int i = 0; i < n_threads; i++)
		if (pthread_create(&id[i], NULL, start, (void *)(intptr_t)i))
			return 3;
	for (int i = 0; i < n_threads; i++) {
		pthread_join(id[i], NULL);
		printf("thread %d found %llu\n", i, (unsigned long long)found[i]);
	}
	printf("together %llu\n", (unsigned long long)sum);
	return 0;
}
