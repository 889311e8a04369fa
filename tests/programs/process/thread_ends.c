/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * thread_ends.c: ways in which a process with threads can end, or go on: see the
 * table at the end.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "first.h"

#include <infiniband/verbs.h>

#define THREADS 6

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long told;
static pthread_t threads[THREADS];

static unsigned long tell(long who)
{
	unsigned long now;

	pthread_mutex_lock(&mutex);
	now = told = told * 31 + (unsigned long)who;
	pthread_mutex_unlock(&mutex);
	return now;
}

static void *for_ever(void *who)
{
	for (;;)
		free(malloc(tell((long)who) % 1000));
	return NULL;
}

static void *for_a_while(void *who)
{
	usleep(1000);
	for (int i = 0; i < 50; i++)
		tell((long)who);
	printf("thread %ld: %lx\n", (long)who, tell((long)who));
	return NULL;
}

static void start(void *(*routine)(void *), const pthread_attr_t *attr)
{
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], attr, routine, (void *)i))
			abort();
}

/* By one thread, while the others are at it. */
static int by_exit(void)
{
	start(for_ever, NULL);
	usleep(2000);
	printf("%lx\n", tell(200));
	exit(3);
}

static int holding_a_lock(void)
{
	start(for_ever, NULL);
	usleep(2000);
	pthread_mutex_lock(&mutex);
	printf("%lx\n", told);
	return 3;
}

/* Ends when the last of the others does, in which the exit handlers run. */
static int by_last_thread(void)
{
	start(for_a_while, NULL);
	free(malloc(33));
	pthread_exit(NULL);
}

static int detached(void)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 1 << 17);
	start(for_a_while, &attr);
	usleep(20000);
	printf("%lx\n", (unsigned long)threads[3]);
	return 4;
}

static int own_stacks(void)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	for (long i = 0; i < THREADS; i++) {
		pthread_attr_setstack(&attr, aligned_alloc(4096, 1 << 17), 1 << 17);
		pthread_create(&threads[i], &attr, for_a_while, (void *)i);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 4;
}

/* More than are alive at any time; half of them are never joined. */
static int many(void)
{
	for (long i = 0; i < 120; i++) {
		pthread_create(&threads[0], NULL, for_a_while, (void *)i);
		if (i % 2)
			pthread_join(threads[0], NULL);
	}
	usleep(20000);
	return 4;
}

/* As each thread of Rust does: the system call behind it takes the number that the kernel has for the thread. */
static void *look_at_itself(void *unused)
{
	cpu_set_t set;

	return (void *)(long)pthread_getaffinity_np(pthread_self(), sizeof(set), &set);
}

/* They have often ended before pthread_create returns. */
static int soon(void)
{
	for (int k = 0; k < 20; k++) {
		start(look_at_itself, NULL);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
	}
	return 4;
}

/* As programs do that send more bytes than they have: what libc keeps of its caller on the stack of a new thread. */
static void *print_above(void *unused)
{
	volatile uint64_t here = 1;
	const volatile uint64_t *above = (const volatile uint64_t *)((uintptr_t)&here & ~15ul);

	for (int i = 0; i < 80; i++)
		printf("%llx\n", (unsigned long long)above[i]);
	return unused;
}

static void *creates_one(void *unused)
{
	pthread_t id;

	print_above(NULL);
	pthread_create(&id, NULL, print_above, NULL);
	pthread_join(id, NULL);
	return unused;
}

static int above_frames(void)
{
	pthread_create(&threads[0], NULL, creates_one, NULL);
	pthread_join(threads[0], NULL);
	return 4;
}

/* libgcc's unwinder, which a compiler at run time tells of its functions. */
extern void __register_frame(void *begin);
extern void __deregister_frame(void *begin);

/* A list of one function, as in .eh_frame: DWARF's CIE of 16 bytes, and its FDE. */
struct __attribute__((packed)) frames {
	uint32_t cie_length, cie_id;
	uint8_t version, augmentation, code_alignment, data_alignment, return_register, nops[7];
	uint32_t fde_length, to_cie;
	uint64_t begin, range;
	uint32_t end;
};

static void *register_frames(void *unused)
{
	static __thread char code[64];
	struct frames f = {.cie_length = 16, .version = 1, .code_alignment = 1, .data_alignment = 0x78, .return_register = 16,
			   .fde_length = 20, .to_cie = 24, .begin = (uintptr_t)code, .range = sizeof(code)};

	for (int i = 0; i < 20; i++) {
		__register_frame(&f);
		__deregister_frame(&f);
	}
	return unused;
}

/* It unlocks as the last thing that it does, by a jump into libc. */
static int with_unwinder(void)
{
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, register_frames, NULL);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	return 4;
}

static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;

static void unlock(void *unused)
{
	pthread_mutex_unlock(&mutex);
}

static void *wait_for_ever(void *unused)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, NULL);
	for (;;)
		pthread_cond_wait(&never, &mutex);
	pthread_cleanup_pop(1);
	return unused;
}

static void *meet(void *unused)
{
	pthread_barrier_wait(&barrier);
	return unused;
}

/* What they wait at is destroyed while they are about to leave it: with one processor, they are still there. */
static int leaving(void)
{
	use_one_processor();
	start(wait_for_ever, NULL);
	usleep(20000);
	for (int i = 0; i < THREADS; i++)
		pthread_cancel(threads[i]);
	pthread_cond_destroy(&never);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_init(&barrier, NULL, THREADS + 1);
	start(meet, NULL);
	usleep(20000);
	pthread_barrier_wait(&barrier);
	pthread_barrier_destroy(&barrier);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("%lx\n", tell(6));
	return 4;
}

static atomic_bool may_end;
static atomic_int turns;

static void *compute(void *unused)
{
	while (!atomic_load(&may_end))
		turns++;
	pthread_testcancel();
	return unused;
}

/* Threads that compute where they are cancelled, and end only at the next point of cancellation.  glibc signals them from 2.41 on. */
static int computing(void)
{
	void *result;

	for (int i = 0; i < 10; i++) {
		atomic_store(&may_end, false);
		pthread_create(&threads[0], NULL, compute, NULL);
		usleep(3000);
		pthread_cancel(threads[0]);
		usleep(1000);
		atomic_store(&may_end, true);
		pthread_join(threads[0], &result);
		printf("%d\n", result == PTHREAD_CANCELED);
	}
	return 4;
}

static int with_child(void)
{
	int status = 0;
	pid_t child;

	start(for_a_while, NULL);
	/* The child has none of the threads that may have it. */
	pthread_mutex_lock(&mutex);
	child = fork();
	pthread_mutex_unlock(&mutex);
	if (!child) {
		tell(1);
		free(malloc(100));
		_exit(9);
	}
	waitpid(child, &status, 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("child: %x\n", (unsigned int)status);
	return 4;
}

/* Until somebody kills it, who sees that this is recorded when standard input is closed. */
static int killed(void)
{
	start(for_ever, NULL);
	puts("running");
	fflush(stdout);
	close(STDIN_FILENO);
	for (int i = 0; i >= 0; i = (i + 1) % 1000)
		tell(i);
	return 1;
}

static volatile int began;

static void *begin(void *unused)
{
	began = 1;
	return unused;
}

/* The process mostly ends before the thread's turn comes; main looks whether it came. */
static int not_begun(void)
{
	pthread_t t;

	pthread_create(&t, NULL, begin, NULL);
	for (volatile int i = 0; i < 4000000; i++)
		;
	if (began && write(1, "begun\n", 6) < 0)
		return 1;
	_exit(4);
}

static void *kill_the_process(void *unused)
{
	if (write(1, "the new thread\n", 15) == 15)
		raise(SIGKILL);
	return unused;
}

static int end_by_new_thread(void *(*run)(void *))
{
	pthread_t t;

	create_first(&t, run);
	pause();
	return 1;
}

static int by_new_thread(void)
{
	return end_by_new_thread(kill_the_process);
}

static void *crash(void *nothing)
{
	if (write(1, "the new thread\n", 15) == 15)
		*(volatile int *)nothing = 1;
	return nothing;
}

static int crashing(void)
{
	return end_by_new_thread(crash);
}

static _Atomic int has_new_ids;

static void *reads_clocks(void *sum)
{
	struct timespec now;

	while (!has_new_ids) {
		clock_gettime(CLOCK_MONOTONIC, &now);
		*(long *)sum += now.tv_nsec;
	}
	return NULL;
}

/* libc has each thread change its own ids, by a signal, wherever it is. */
static int new_ids(void)
{
	pthread_t t[2];
	long sums[2] = {0, 0};

	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, reads_clocks, &sums[i]);
	for (int i = 0; i < 20; i++)
		if (setgid(getgid()))
			return 1;
	has_new_ids = 1;
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("%ld %ld\n", sums[0], sums[1]);
	return 4;
}

static void at_exit(void)
{
	free(malloc(77));
	puts("exit handler");
}

static const struct {
	const char *name;
	int (*run)(void);
} ways[] = {
    {"by_exit", by_exit},
    {"holding_a_lock", holding_a_lock},
    {"by_last_thread", by_last_thread},
    {"detached", detached},
    {"own_stacks", own_stacks},
    {"many", many},
    {"soon", soon},
    {"above_frames", above_frames},
    {"with_unwinder", with_unwinder},
    {"leaving", leaving},
    {"with_child", with_child},
    {"computing", computing},
    {"new_ids", new_ids},
    {"not_begun", not_begun},
    {"by_new_thread", by_new_thread},
    {"crashing", crashing},
    {"killed", killed},
};

int main(int argc, char **argv)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (list)
		ibv_free_device_list(list);
	atexit(at_exit);
	for (size_t i = 0; argc > 1 && i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(argv[1], ways[i].name))
			return ways[i].run();
	return 2;
}
