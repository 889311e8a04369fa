/* SPDX-License-Identifier: BSD-2-Clause */
/* signals_computing.c: handlers in code that computes, and makes no call. */
#include "signals.h"

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t count;

/* A flag that only a handler sets, and nothing is called. */
static volatile sig_atomic_t flag;

static void raise_flag(int signo)
{
	flag = 1;
}

static void spins(void)
{
	signal(SIGALRM, raise_flag);
	ualarm(20000, 0);
	while (!flag)
		;
	printf("%ld\n", now());
}

static void count_one(int signo)
{
	count++;
}

/* One signal after the other, and no call that would bring them. */
static void spins_on(void)
{
	struct itimerval often = {{0, 20000}, {0, 20000}};

	signal(SIGALRM, count_one);
	setitimer(ITIMER_REAL, &often, NULL);
	while (count < 4)
		;
	printf("%d %ld\n", count >= 4, now());
}

/* ------------------------------------------------- handlers in computing code, and where they found it */

#define FOUND_MAX 4096

static volatile uint64_t turn; /* of the loop that computes */
static uint64_t found_at[FOUND_MAX];
static volatile sig_atomic_t found_n;

static void note_turn(int signo)
{
	if (found_n < FOUND_MAX)
		found_at[found_n++] = turn * 100 + (uint64_t)signo;
}

static void print_found(int most)
{
	uint64_t all = 0;

	for (int i = 0; i < found_n && i < most; i++)
		printf("%llu ", (unsigned long long)found_at[i]);
	for (int i = 0; i < found_n; i++)
		all = all * 31 + found_at[i];
	printf("%d, %llu\n", (int)found_n, (unsigned long long)all);
}

static uint64_t a_turn(uint64_t x)
{
	return (x ^ (x >> 7)) * 6364136223846793005ull + turn;
}

/* A loop counts, and looks at the flag. */
static void counts_till_flag(void)
{
	uint64_t n = 0, x = 1;

	for (int i = 0; i < 5; i++) {
		flag = 0;
		set_flags(SIGALRM, (void (*)(int, siginfo_t *, void *))(uintptr_t)raise_flag, SA_RESTART);
		ualarm(20000, 0);
		while (!flag)
			x = x * 6364136223846793005ull + ++n;
		printf("%llu %llu\n", (unsigned long long)n, (unsigned long long)x);
	}
}

/* The same in each turn, with a block that is freed, and the count far up on the stack, as in `openssl speed`. */
static __attribute__((noinline)) unsigned int a_digest(unsigned int x)
{
	unsigned char scratch[1024], *block = malloc(80);

	memset(scratch, (int)x, sizeof(scratch));
	memset(block, 1, 80);
	__asm__ volatile("" ::"r"(scratch), "r"(block) : "memory");
	for (unsigned int i = 0; i < sizeof(scratch); i++)
		x = x * 31 + scratch[i] + block[i % 80];
	free(block);
	return x;
}

static void counts_digests(void)
{
	unsigned int n = 0, sum = 0;

	for (int i = 0; i < 5; i++) {
		flag = 0;
		set_flags(SIGALRM, (void (*)(int, siginfo_t *, void *))(uintptr_t)raise_flag, SA_RESTART);
		ualarm(20000, 0);
		for (; !flag; n++)
			sum ^= a_digest(7);
		printf("%u %u\n", n, sum);
	}
}

/* What one function leaves on the stack lies in a hole of the next one's frame; in between the counter is read. */
static __attribute__((noinline)) uint64_t leaves_values(uint64_t x)
{
	volatile uint64_t scratch[384];

	for (int i = 0; i < 384; i++)
		scratch[i] = x * (uint64_t)(i + 1);
	return scratch[x % 384];
}

static __attribute__((noinline)) uint64_t reads_counter_now(void)
{
	return __builtin_ia32_rdtsc();
}

static __attribute__((noinline)) uint64_t computes_over_hole(uint64_t x)
{
	volatile uint64_t hole[384];

	__asm__ volatile("" ::"r"(hole) : "memory");
	for (int i = 0; i < 10000000; i++)
		x = x * 6364136223846793005ull + (uint64_t)i;
	return x;
}

static void reads_counter(void)
{
	struct itimerval often = {{0, 5000}, {0, 5000}};
	uint64_t x = 1;

	/* From so many reads on they are made without a fault. */
	for (int i = 0; i < 1000; i++)
		x ^= reads_counter_now();
	signal(SIGALRM, note_turn);
	setitimer(ITIMER_REAL, &often, NULL);
	for (turn = 0; turn < 10; turn++) {
		x += leaves_values(x);
		/* Until a handler has run, at the end of a read: it leaves something on the stack, too. */
		for (int before = found_n; found_n == before; x ^= reads_counter_now())
			for (int i = 0; i < 500; i++)
				x = a_turn(x);
		x = computes_over_hole(x);
	}
	signal(SIGALRM, SIG_IGN);
	printf("%llu ", (unsigned long long)x);
	print_found(8);
}

static void note_turn_and_frame(int signo)
{
	if (found_n < FOUND_MAX)
		found_at[found_n++] = turn ^ (uint64_t)(uintptr_t)__builtin_frame_address(0) << 20;
}

/* Blocks come and go in each turn, often before any place is found. */
static void allocates(void)
{
	struct itimerval often = {{0, 1000}, {0, 1000}};
	unsigned char *block[8] = {NULL};
	uint64_t x = 0;

	signal(SIGALRM, note_turn_and_frame);
	setitimer(ITIMER_REAL, &often, NULL);
	while (found_n < 100) {
		turn++;
		x = a_turn(x);
		free(block[turn % 8]);
		block[turn % 8] = malloc(1 + x % 5000);
		block[turn % 8][0] = (unsigned char)x;
	}
	setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
	print_found(5);
	for (int i = 0; i < 8; i++)
		x = x * 31 + block[i][0];
	printf("%llu\n", (unsigned long long)x);
}

/* A profiler's ticks. */
static void ticks(void)
{
	struct itimerval often = {{0, 1000}, {0, 1000}};
	uint64_t x = 0;

	signal(SIGPROF, note_turn);
	setitimer(ITIMER_PROF, &often, NULL);
	while (found_n < 100) {
		turn++;
		x = a_turn(x);
	}
	setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
	print_found(5);
	printf("%llu\n", (unsigned long long)x);
}

/*
 * Around mappings of a file, of which the recorder may make calls of its own, or none: the handlers run behind them, and no call
 * of the program's lies between.
 */
static void maps_files(void)
{
	struct itimerval often = {{0, 3000}, {0, 3000}};
	char name[] = "/tmp/maps_files-XXXXXX";
	int fd = mkstemp(name);
	uint64_t x = 0;

	if (fd < 0 || ftruncate(fd, 8192))
		exit(9);
	signal(SIGPROF, note_turn);
	setitimer(ITIMER_PROF, &often, NULL);
	while (found_n < 30) {
		uint64_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

		for (uint64_t begun_at = turn++; (turn - begun_at) % 1000000; turn++)
			x = a_turn(x);
		p[turn % 1024] = x;
		msync(p, 8192, MS_ASYNC);
		for (uint64_t begun_at = turn++; (turn - begun_at) % 1000000; turn++)
			x = a_turn(x);
		munmap(p, 8192);
		for (uint64_t begun_at = turn++; (turn - begun_at) % 1000000; turn++)
			x = a_turn(x);
	}
	setitimer(ITIMER_PROF, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
	unlink(name);
	close(fd);
	print_found(5);
	printf("%llu\n", (unsigned long long)x);
}

static timer_t timer_of(int signo, long us)
{
	struct sigevent e = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = signo};
	const struct itimerspec often = {{0, us * 1000}, {0, us * 1000}};
	timer_t t;

	timer_create(CLOCK_PROCESS_CPUTIME_ID, &e, &t);
	timer_settime(t, 0, &often, NULL);
	return t;
}

/* Several of different kinds, some at once. */
static void many_kinds(void)
{
	static const int signos[] = {10, 12, 34, 35, 14};
	uint64_t x = 0;
	timer_t t[5];

	for (int i = 0; i < 5; i++) {
		signal(signos[i], note_turn);
		t[i] = timer_of(signos[i], 7000);
	}
	while (found_n < 60) {
		turn++;
		x = a_turn(x);
	}
	for (int i = 0; i < 5; i++)
		timer_delete(t[i]);
	print_found(5);
	printf("%llu\n", (unsigned long long)x);
}

/* Its handler computes as well, and is interrupted by another one. */
static void compute_in_handler(int signo)
{
	uint64_t x = (uint64_t)signo;

	note_turn(signo);
	for (int i = 0; i < 10000000; i++)
		x = x * 6364136223846793005ull + (uint64_t)i;
	found_at[0] += x;
}

static void nested_computing(void)
{
	uint64_t x = 0;
	timer_t a, b;

	signal(SIGUSR1, compute_in_handler);
	signal(SIGUSR2, note_turn);
	a = timer_of(SIGUSR1, 50000);
	b = timer_of(SIGUSR2, 9000);
	while (found_n < 30) {
		turn++;
		x = a_turn(x);
	}
	timer_delete(a);
	timer_delete(b);
	print_found(5);
	printf("%llu\n", (unsigned long long)x);
}

static sigjmp_buf out_of_loop;

static void leave_loop(int signo)
{
	siglongjmp(out_of_loop, 1);
}

/* Its handler jumps out of the loop. */
static void jumps_from_loops(void)
{
	static volatile uint64_t n;

	set_flags(SIGALRM, (void (*)(int, siginfo_t *, void *))(uintptr_t)leave_loop, 0);
	for (volatile int i = 0; i < 10; i++) {
		if (!sigsetjmp(out_of_loop, 1)) {
			ualarm(i % 2 ? 15000 : 1000, 0);
			for (;;)
				n++;
		}
		printf("%llu\n", (unsigned long long)n);
	}
}

/* Others wait behind it, which it blocks: some of them for long; and from behind some it jumps away. */
static int leaves;

static void note_value(int signo, siginfo_t *info, void *context)
{
	uint64_t x = 1;

	if (found_n < FOUND_MAX)
		found_at[found_n++] = turn * 100 + (uint64_t)info->si_value.sival_int;
	if (info->si_value.sival_int % 4 == 1)
		for (int i = 0; i < 3000000; i++)
			x = a_turn(x);
	found_at[0] += x;
	if (leaves && info->si_value.sival_int % 4 == 2)
		siglongjmp(out_of_loop, 1);
}

/* In one go, to a process that computes: several of one kind, and of others. */
static void send_in_rows(pid_t to)
{
	for (int i = 0; i < 12; i++) {
		usleep(15000);
		for (int k = 0; k < 5; k++)
			sigqueue(to, SIGRTMIN + k / 2, (union sigval){.sival_int = i * 5 + k});
	}
	_exit(0);
}

static void rows(void)
{
	static volatile uint64_t x;
	struct sigaction a = {.sa_sigaction = note_value, .sa_flags = SA_SIGINFO};

	sigfillset(&a.sa_mask);
	for (int i = 0; i < 3; i++)
		sigaction(SIGRTMIN + i, &a, NULL);
	if (!fork())
		send_in_rows(getppid());
	sigsetjmp(out_of_loop, 1);
	while (found_n < 60) {
		turn++;
		x = a_turn(x);
	}
	print_found(8);
	printf("%llu\n", (unsigned long long)x);
}

static void rows_left(void)
{
	leaves = 1;
	rows();
}

static void note_arrival(int signo, siginfo_t *info, void *context)
{
	if (found_n < FOUND_MAX)
		found_at[found_n++] = turn * 1000 + (uint64_t)info->si_value.sival_int;
}

/* In a processor's steps each byte of a copied string is one. */
static void copy_bytes(void *to, const void *from, size_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static uint64_t digest_of(const uint64_t *word, int words)
{
	uint64_t x = 1, copy[16];

	for (int i = 0; i < words; i += 64) {
		copy_bytes(copy, &word[i], sizeof(copy));
#pragma GCC unroll 64
		for (int k = 0; k < 64; k++)
			x = a_turn(x ^ word[i + k] ^ copy[k % 16]);
	}
	return x;
}

/* More of them come while a place is sought for the first than there are tries to find one; the loop has long turns. */
static void rows_fast(void)
{
	static uint64_t word[1024];
	struct sigaction a = {.sa_sigaction = note_arrival, .sa_flags = SA_SIGINFO};

	sigaction(SIGRTMIN, &a, NULL);
	if (!fork()) {
		for (int i = 0; i < 1200; i++) {
			usleep(i % 150 ? 50 : 30000);
			sigqueue(getppid(), SIGRTMIN, (union sigval){.sival_int = i});
		}
		_exit(0);
	}
	while (found_n < 1200)
		word[turn++ % 1024] = digest_of(word, 1024);
	print_found(1200);
	printf("%llu\n", (unsigned long long)turn);
}

static _Thread_local volatile sig_atomic_t my_flag;

static void raise_mine(int signo)
{
	my_flag++;
}

static void *compute_till_told(void *argument)
{
	uint64_t n = 0;

	while (my_flag < 3)
		n++;
	return (void *)(uintptr_t)n;
}

/* Threads that compute until others tell them, by signals. */
static void threads_till_told(void)
{
	const struct timespec a_while = {.tv_nsec = 30000000};
	pthread_t id[3];
	void *value;

	signal(SIGUSR1, raise_mine);
	for (int i = 0; i < 3; i++)
		pthread_create(&id[i], NULL, compute_till_told, NULL);
	for (int i = 0; i < 3; i++) {
		while (pthread_tryjoin_np(id[i], &value)) {
			nanosleep(&a_while, NULL);
			pthread_kill(id[i], SIGUSR1);
		}
		printf("%llu\n", (unsigned long long)(uintptr_t)value);
	}
}

/* Refers to nothing but what it gets. */
static __attribute__((noinline)) int wait_for_flag(const volatile sig_atomic_t *f)
{
	int n = 0;

	while (!*f)
		n |= 1;
	return n;
}

static void spin_in_made_code(int prot)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		exit(4);
	memcpy(code, (const void *)(uintptr_t)wait_for_flag, 256);
	mprotect(code, 4096, prot);
	signal(SIGALRM, raise_flag);
	ualarm(20000, 0);
	printf("%d\n", ((__typeof__(&wait_for_flag))(uintptr_t)code)(&flag));
}

static void spins_in_made_code(void)
{
	spin_in_made_code(PROT_READ | PROT_EXEC);
}

/* No breakpoint can be there. */
static void spins_in_writable_code(void)
{
	spin_in_made_code(PROT_READ | PROT_WRITE | PROT_EXEC);
}

/* ---------------------------------------------------- threads that wait for locks */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t begun, acknowledged;

static void acknowledge(int signo, siginfo_t *info, void *context)
{
	sem_post(&acknowledged);
}

static void *lock_one(void *which)
{
	sem_post(&begun);
	if (!which) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
	} else {
		if (which == &begun)
			pthread_rwlock_rdlock(&rwlock);
		else
			pthread_rwlock_wrlock(&rwlock);
		pthread_rwlock_unlock(&rwlock);
	}
	return NULL;
}

/* The owner of a lock waits for handlers of those that wait for it, as a collector of garbage does that stops all threads. */
static void lock_waiters(void)
{
	void *const ways[] = {NULL, &begun, &acknowledged};
	struct timespec late;
	pthread_t waiters[3];

	sem_init(&begun, 0, 0);
	sem_init(&acknowledged, 0, 0);
	set_flags(SIGUSR1, acknowledge, SA_RESTART);
	pthread_mutex_lock(&mutex);
	pthread_rwlock_wrlock(&rwlock);
	for (int i = 0; i < 3; i++)
		pthread_create(&waiters[i], NULL, lock_one, ways[i]);
	for (int i = 0; i < 3; i++)
		sem_wait(&begun);
	usleep(20000);
	clock_gettime(CLOCK_REALTIME, &late);
	late.tv_sec += 10;
	for (int i = 0; i < 3; i++)
		pthread_kill(waiters[i], SIGUSR1);
	for (int i = 0; i < 3; i++)
		if (sem_timedwait(&acknowledged, &late))
			exit(9); /* none came */
	printf("three handlers\n");
	pthread_mutex_unlock(&mutex);
	pthread_rwlock_unlock(&rwlock);
	for (int i = 0; i < 3; i++)
		pthread_join(waiters[i], NULL);
}

const struct signal_case computing_cases[] = {
    {"lock_waiters", lock_waiters},
    {"spins", spins},
    {"spins_on", spins_on},
    {"counts_till_flag", counts_till_flag},
    {"counts_digests", counts_digests},
    {"reads_counter", reads_counter},
    {"allocates", allocates},
    {"ticks", ticks},
    {"maps_files", maps_files},
    {"many_kinds", many_kinds},
    {"nested_computing", nested_computing},
    {"jumps_from_loops", jumps_from_loops},
    {"rows", rows},
    {"rows_left", rows_left},
    {"rows_fast", rows_fast},
    {"threads_till_told", threads_till_told},
    {"spins_in_made_code", spins_in_made_code},
    {"spins_in_writable_code", spins_in_writable_code},
    {NULL, NULL},
};
