/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * atomics.c: threads that decide by plain atomics, between their calls, who does what: what
 * communication libraries do that count references and set flags.
 *
 *     atomics [-t THREADS] [-n ROUNDS] [CASE...]
 *
 *     references   who counts down to zero frees, and allocates anew
 *     flags        who is first at a flag does the work, the others wait for it by sched_yield
 *     futex        a lock of the program's own, by an atomic word and futex(2)
 *     queue        a list that is pushed to and taken from by compare-and-swap
 *     sleepers     as references; all but one sleep most of the time
 *     handler      a signal's handler counts with the thread that it interrupts
 *     spin         who waits only spins: no call, for as long as another thread sleeps
 *
 *     elsewhere    the same by code that is in no file
 *     libcs_lock   wakes who waits at a lock of libc's own
 *
 * Without a case: all but the last three.  Each prints who did what, which differs from run to run.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define MAX_THREADS 16

static int n_threads = 4, rounds = 200;

/* Of each thread alone: what it found. */
static uint64_t found[MAX_THREADS];

static void note(int me, uint64_t what)
{
	found[me] = (found[me] ^ what) * 0x100000001b3u + 1;
}

/* A call of no consequence, now and then. */
static void call(int me, int i)
{
	struct timespec ts;

	if ((me + i) % 3 == 0)
		clock_gettime(CLOCK_MONOTONIC, &ts);
	if ((me * 5 + i) % 17 == 0)
		usleep(50);
}

static void work(int me, int i)
{
	volatile unsigned int sink = 0;

	for (int n = (me * 37 + i * 11) % 300; n > 0; n--)
		sink += (unsigned int)n;
}

/* -------------------------------------------------------------- references */

struct object {
	_Atomic int references;
	uint64_t made_by, number;
};

static struct object *_Atomic current;
static _Atomic int turnover;

static struct object *new_object(int me)
{
	struct object *o = malloc(sizeof(*o) + (size_t)(me * 16));

	o->references = n_threads;
	o->made_by = (uint64_t)me;
	o->number = (uint64_t)turnover++;
	return o;
}

static void let_go(int me, struct object *o)
{
	struct object *next;

	if (atomic_fetch_sub(&o->references, 1) > 1)
		return;
	next = new_object(me);
	note(me, o->number * 100 + o->made_by);
	free(o);
	atomic_store(&current, next);
}

static void references(int me)
{
	for (int i = 0; i < rounds; i++) {
		struct object *mine = atomic_load(&current);

		call(me, i);
		work(me, i);
		let_go(me, mine);
		while (atomic_load(&current) == mine)
			sched_yield();
	}
}

static void sleepers(int me)
{
	for (int i = 0; i < rounds / 10; i++) {
		struct object *mine = atomic_load(&current);

		if (me)
			usleep(100);
		work(me, i);
		let_go(me, mine);
		while (atomic_load(&current) == mine)
			usleep(20);
	}
}

/* ------------------------------------------------------------------- flags */

static _Atomic int flags[10000];

static void flag(int me)
{
	for (int i = 0; i < rounds; i++) {
		int none = 0;

		work(me, i);
		if (atomic_compare_exchange_strong(&flags[i], &none, 1)) {
			call(me, i);
			note(me, (uint64_t)i);
			atomic_store(&flags[i], 2 + me);
		}
		while (atomic_load(&flags[i]) < 2)
			sched_yield();
		note(me, (uint64_t)atomic_load(&flags[i]));
	}
}

/* ------------------------------------------------------------------- futex */

static _Atomic uint32_t word;
static uint64_t under_lock;

static void lock(void)
{
	uint32_t none = 0;

	if (atomic_compare_exchange_strong(&word, &none, 1))
		return;
	while (atomic_exchange(&word, 2))
		syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void unlock(void)
{
	if (atomic_exchange(&word, 0) == 2)
		syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void futex(int me)
{
	for (int i = 0; i < rounds; i++) {
		lock();
		under_lock = under_lock * 31 + (uint64_t)me;
		note(me, under_lock);
		call(me, i);
		unlock();
		work(me, i);
	}
}

/* ------------------------------------------------------------------- queue */

struct item {
	struct item *next;
	int from;
};

static struct item *_Atomic top;

/* All at once: what was taken is nobody else's. */
static void queue(int me)
{
	for (int i = 0; i < rounds; i++) {
		struct item *it = malloc(sizeof(*it)), *next;

		it->from = me;
		it->next = atomic_load(&top);
		while (!atomic_compare_exchange_weak(&top, &it->next, it))
			;
		call(me, i);
		if (i % 4)
			continue;
		for (it = atomic_exchange(&top, NULL); it; it = next) {
			next = it->next;
			note(me, (uint64_t)it->from);
			free(it);
		}
	}
}

/* ----------------------------------------------------------------- handler */

static _Atomic uint64_t counted;
static __thread int self;

static void on_signal(int signo)
{
	struct timespec ts;

	note(self, atomic_fetch_add(&counted, 3));
	clock_gettime(CLOCK_MONOTONIC, &ts);
}

static pthread_t threads[MAX_THREADS];
static _Atomic int come, gone;

static void handler(int me)
{
	self = me;
	atomic_fetch_add(&come, 1);
	while (atomic_load(&come) < n_threads)
		usleep(20);
	for (int i = 0; i < rounds / 4; i++) {
		note(me, atomic_fetch_add(&counted, 1));
		call(me, i);
		if (i % 5 == 0)
			pthread_kill(threads[(me + 1) % n_threads], SIGUSR1);
		work(me, i);
	}
	atomic_fetch_add(&gone, 1);
	/* All are there to be sent to. */
	while (atomic_load(&gone) < n_threads)
		usleep(20);
}

/* -------------------------------------------------------------------- spin */

static _Atomic int spun;

static void spin_here(int i)
{
	while (atomic_load(&spun) <= i)
		;
}

/* The same as spin_here(), by code that the program makes. */
static void (*spin_elsewhere)(atomic_int *word, int i);

static void make_code(int prot)
{
	static const uint8_t code[] = {0x8b, 0x07, 0x39, 0xf0, 0x7e, 0xfa, 0xc3}; /* 1: mov (%rdi), %eax; cmp %esi, %eax; jle 1b; ret */
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(p, code, sizeof(code));
	mprotect(p, 4096, prot);
	spin_elsewhere = (void (*)(atomic_int *, int))p;
}

static void spin(int me)
{
	for (int i = 0; i < 5; i++) {
		if (me == i % n_threads) {
			usleep(2000);
			note(me, (uint64_t)i);
			atomic_store(&spun, i + 1);
		}
		if (spin_elsewhere)
			spin_elsewhere(&spun, i);
		else
			spin_here(i);
		note(me, (uint64_t)i);
	}
}

/* -------------------------------------------------------------- libcs_lock */

static void libcs_lock(int me)
{
	note(me, (uint64_t)syscall(SYS_futex, stdout->_lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0));
}

/* --------------------------------------------------------------------- all */

static const struct a_case {
	const char *name;
	void (*run)(int me);
} cases[] = {
    {"references", references}, {"flags", flag},       {"futex", futex}, {"queue", queue},
    {"sleepers", sleepers},     {"handler", handler}, {"spin", spin},
    {"made", spin},             {"writable", spin},   {"libcs_lock", libcs_lock},
};

static const struct a_case *now;

static void *thread(void *me)
{
	now->run((int)(intptr_t)me);
	return NULL;
}

static void run(const struct a_case *c)
{
	now = c;
	memset(found, 0, sizeof(found));
	turnover = 0;
	come = gone = 0;
	if (!strcmp(c->name, "made"))
		make_code(PROT_READ | PROT_EXEC);
	if (!strcmp(c->name, "writable"))
		make_code(PROT_READ | PROT_WRITE | PROT_EXEC);
	current = new_object(0);
	for (intptr_t i = 0; i < n_threads; i++)
		if (pthread_create(&threads[i], NULL, thread, (void *)i))
			exit(1);
	for (int i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	printf("%s:", c->name);
	for (int i = 0; i < n_threads; i++)
		printf(" %016llx", (unsigned long long)found[i]);
	putchar('\n');
}

int main(int argc, char **argv)
{
	struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	size_t n = sizeof(cases) / sizeof(cases[0]);
	struct ibv_device **list;
	int option, devices;
	bool all;

	while ((option = getopt(argc, argv, "t:n:")) > 0) {
		if (option == 't')
			n_threads = atoi(optarg);
		else
			rounds = atoi(optarg);
	}
	if (n_threads < 1 || n_threads > MAX_THREADS || rounds < 1 || rounds > 10000)
		return 2;
	list = ibv_get_device_list(&devices);
	if (list)
		ibv_free_device_list(list);
	sigaction(SIGUSR1, &a, NULL);
	all = optind == argc;
	for (size_t i = 0; i < n; i++) {
		bool wanted = all && cases[i].run != spin && cases[i].run != libcs_lock;

		for (int k = optind; k < argc; k++)
			wanted = wanted || !strcmp(argv[k], cases[i].name);
		if (wanted)
			run(&cases[i]);
	}
	return 0;
}
