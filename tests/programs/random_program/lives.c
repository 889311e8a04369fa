/* SPDX-License-Identifier: BSD-2-Clause */
/* lives.c: how threads begin, meet, are cancelled and end; contexts that are left and entered again. */
#include <errno.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "shared.h"

#define MOST 4

/* What several threads of one step share: each adds to it under the lock. */
struct group {
	pthread_mutex_t lock;
	uint64_t sum;
	pthread_barrier_t barrier;
	pthread_cond_t never;
	int ends[2]; /* a pipe that nothing comes through */
	unsigned int way, rounds;
	_Atomic uint32_t word; /* a lock of futexes */
	uint64_t under_word;
};

struct member {
	struct group *group;
	pthread_t thread;
	unsigned int number;
};

static void add(struct group *g, uint64_t value)
{
	pthread_mutex_lock(&g->lock);
	g->sum = g->sum * 31 + value;
	pthread_mutex_unlock(&g->lock);
}

static void begin(struct group *g, struct member *m, unsigned int n, void *(*run)(void *))
{
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->never, NULL);
	pthread_barrier_init(&g->barrier, NULL, n);
	pipe(g->ends);
	for (unsigned int i = 0; i < n; i++) {
		m[i] = (struct member){.group = g, .number = i};
		pthread_create(&m[i].thread, NULL, run, &m[i]);
	}
}

static void end(struct self *s, struct group *g, struct member *m, unsigned int n)
{
	void *result;

	for (unsigned int i = 0; i < n; i++) {
		mix(s, (uint64_t)pthread_join(m[i].thread, &result));
		mix(s, result == PTHREAD_CANCELED ? 77 : (uintptr_t)result);
	}
	mix(s, g->sum);
	mix(s, g->under_word);
	close(g->ends[0]);
	close(g->ends[1]);
	pthread_barrier_destroy(&g->barrier);
	pthread_cond_destroy(&g->never);
	pthread_mutex_destroy(&g->lock);
}

/* ----------------------------------------------------------------- cancelled */

static void clean(void *argument)
{
	struct member *m = argument;

	add(m->group, 100 + m->number);
}

static void unlock(void *argument)
{
	pthread_mutex_unlock(argument);
}

/* Waits for ever in one of many ways. */
static void *linger(void *argument)
{
	struct member *m = argument;
	struct group *g = m->group;
	char byte;

	pthread_cleanup_push(clean, m);
	add(g, m->number);
	switch ((g->way + m->number) % 5) {
	case 0:
		(void)!read(g->ends[0], &byte, 1);
		break;
	case 1:
		pthread_mutex_lock(&g->lock);
		pthread_cleanup_push(unlock, &g->lock);
		for (;;)
			pthread_cond_wait(&g->never, &g->lock);
		pthread_cleanup_pop(1);
		break;
	case 2:
		for (;;)
			sleep(1000);
		break;
	case 3:
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
		usleep(100);
		add(g, 9);
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
		for (;;)
			pause();
		break;
	default:
		for (;;) {
			pthread_testcancel();
			sched_yield();
		}
	}
	pthread_cleanup_pop(1);
	return NULL;
}

static void cancels(struct self *s)
{
	struct group g = {.way = draw(s, 5)};
	struct member m[MOST];
	unsigned int n = 1 + draw(s, MOST);

	begin(&g, m, n, linger);
	if (draw(s, 2))
		usleep(200);
	for (unsigned int i = 0; i < n; i++)
		mix(s, (uint64_t)pthread_cancel(m[i].thread));
	end(s, &g, m, n);
}

/* ---------------------------------------------------------------- destructors */

static pthread_key_t keys[3];
static pthread_once_t makes_keys = PTHREAD_ONCE_INIT;

/* Some values come again: libc runs the destructors several times. */
static void destroy(void *value)
{
	uint64_t *v = value;
	struct group *g = (struct group *)(uintptr_t)v[0];

	add(g, v[1]);
	if (v[1] % 4 == 3) {
		v[1]++;
		pthread_setspecific(keys[v[1] % 3], v);
	} else {
		free(v);
	}
}

static void make_keys(void)
{
	for (int i = 0; i < 3; i++)
		pthread_key_create(&keys[i], destroy);
}

static void *own_values(void *argument)
{
	struct member *m = argument;

	pthread_once(&makes_keys, make_keys);
	for (unsigned int i = 0; i < 3; i++) {
		uint64_t *v = malloc(2 * sizeof(*v));

		v[0] = (uintptr_t)m->group;
		v[1] = m->number * 10 + i + m->group->way;
		pthread_setspecific(keys[i], v);
	}
	pthread_exit((void *)(uintptr_t)m->number);
}

static void leaves_values(struct self *s)
{
	struct group g = {.way = draw(s, 5)};
	struct member m[MOST];
	unsigned int n = 1 + draw(s, MOST);

	begin(&g, m, n, own_values);
	end(s, &g, m, n);
}

/* -------------------------------------------------------------------- meetings */

static void *meet(void *argument)
{
	struct member *m = argument;

	for (unsigned int i = 0; i < m->group->rounds; i++) {
		int result = pthread_barrier_wait(&m->group->barrier);

		add(m->group, result == PTHREAD_BARRIER_SERIAL_THREAD ? 1000 + m->number : i);
	}
	return NULL;
}

static void meets(struct self *s)
{
	struct group g = {.rounds = 1 + draw(s, 10)};
	struct member m[MOST];
	unsigned int n = 1 + draw(s, MOST);

	begin(&g, m, n, meet);
	end(s, &g, m, n);
}

static void futex(_Atomic uint32_t *word, int op, uint32_t value)
{
	syscall(SYS_futex, word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* 0: free, 1: held, 2: and somebody waits. */
static void lock_word(_Atomic uint32_t *word)
{
	uint32_t now = 0;

	if (atomic_compare_exchange_strong(word, &now, 1))
		return;
	while (atomic_exchange(word, 2))
		futex(word, FUTEX_WAIT, 2);
}

static void unlock_word(_Atomic uint32_t *word)
{
	if (atomic_exchange(word, 0) == 2)
		futex(word, FUTEX_WAKE, 1);
}

static void *use_word(void *argument)
{
	struct member *m = argument;
	struct group *g = m->group;

	for (unsigned int i = 0; i < g->rounds; i++) {
		lock_word(&g->word);
		g->under_word = g->under_word * 31 + m->number;
		if (i % 5 == g->way)
			sched_yield();
		unlock_word(&g->word);
	}
	return NULL;
}

static void locks_words(struct self *s)
{
	struct group g = {.rounds = 1 + draw(s, 60), .way = draw(s, 6)};
	struct member m[MOST];
	unsigned int n = 1 + draw(s, MOST);

	begin(&g, m, n, use_word);
	end(s, &g, m, n);
}

/* -------------------------------------------------------------------- contexts */

static _Thread_local sigjmp_buf back;
static _Thread_local unsigned char *forbidden;

/* On a stack of its own: leaves it by a jump, or allows the access. */
static void on_fault(int signo, siginfo_t *info, void *context)
{
	if (!forbidden)
		_exit(98);
	if ((uintptr_t)info->si_addr & 1)
		siglongjmp(back, 1 + (int)((uintptr_t)info->si_addr % 1000));
	mprotect(forbidden, 4096, PROT_READ | PROT_WRITE);
}

static void install(void)
{
	struct sigaction act = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};

	sigaction(SIGSEGV, &act, NULL);
}

static void faults(struct self *s)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	stack_t stack = {.ss_size = 65536}, old, none = {.ss_flags = SS_DISABLE};
	volatile unsigned int at = draw(s, 4000);
	int got;

	pthread_once(&once, install);
	stack.ss_sp = malloc(stack.ss_size);
	sigaltstack(&stack, &old);
	forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	got = sigsetjmp(back, 1);
	mix(s, (uint64_t)got);
	if (!got)
		mix(s, forbidden[at]++);
	munmap(forbidden, 4096);
	forbidden = NULL;
	sigaltstack(old.ss_flags & SS_DISABLE ? &none : &old, NULL);
	free(stack.ss_sp);
}

static _Thread_local struct {
	ucontext_t main, other;
	struct self *s;
} contexts;

static void other_context(void)
{
	for (unsigned int i = 0; i < 3; i++) {
		mix(contexts.s, i + draw(contexts.s, 100));
		swapcontext(&contexts.other, &contexts.main);
	}
}

static void swaps_contexts(struct self *s)
{
	char *stack = malloc(65536);

	contexts.s = s;
	getcontext(&contexts.other);
	contexts.other.uc_stack.ss_sp = stack;
	contexts.other.uc_stack.ss_size = 65536;
	contexts.other.uc_link = &contexts.main;
	makecontext(&contexts.other, other_context, 0);
	for (unsigned int i = 0; i < 3; i++) {
		swapcontext(&contexts.main, &contexts.other);
		mix(s, (uint64_t)getppid() + i);
	}
	free(stack);
}

/* A signal that only a wait takes. */
static void awaits_signal(struct self *s)
{
	const struct timespec soon = {.tv_nsec = 1 + draw(s, 300000)};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN + 4};
	struct itimerspec when = {.it_value.tv_nsec = 1 + draw(s, 300000)};
	siginfo_t info = {0};
	sigset_t set, old;
	timer_t timer;
	int got;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 4);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	event._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	event.sigev_value.sival_int = (int)draw(s, 1000);
	timer_create(CLOCK_MONOTONIC, &event, &timer);
	timer_settime(timer, 0, &when, NULL);
	got = sigtimedwait(&set, &info, &soon);
	mix(s, got < 0 ? (uint64_t)errno : (uint64_t)got);
	mix(s, (uint64_t)info.si_int);
	timer_delete(timer);
	while (sigtimedwait(&set, &info, &(struct timespec){0}) > 0)
		mix(s, 1);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

struct expiry {
	pthread_mutex_t mutex;
	sem_t begun;
	uint64_t value;
	int bound;
};

static void on_expiry(union sigval value)
{
	struct expiry *e = value.sival_ptr;
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	pthread_mutex_lock(&e->mutex);
	e->value = e->value * 31 + (uint64_t)now.tv_nsec % 1000;
	pthread_mutex_unlock(&e->mutex);
	sem_post(&e->begun);
}

/* A timer whose expiries begin threads.  One may begin when it is deleted already: what it uses stays. */
static void expires(struct self *s)
{
	struct expiry *e = calloc(1, sizeof(*e));
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_expiry, .sigev_value.sival_ptr = e};
	struct itimerspec when = {.it_value.tv_nsec = 1 + draw(s, 300000), .it_interval.tv_nsec = 200000 + draw(s, 1000000)};
	unsigned int n = 1 + draw(s, 3);
	pthread_attr_t attributes;
	timer_t timer;

	pthread_mutex_init(&e->mutex, NULL);
	sem_init(&e->begun, 0, 0);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 128ul << 10);
	if (draw(s, 2))
		event.sigev_notify_attributes = &attributes;
	mix(s, (uint64_t)timer_create(draw(s, 2) ? CLOCK_MONOTONIC : CLOCK_REALTIME, &event, &timer));
	pthread_attr_destroy(&attributes);
	timer_settime(timer, 0, &when, NULL);
	for (unsigned int i = 0; i < n; i++)
		while (sem_wait(&e->begun) && errno == EINTR)
			;
	timer_gettime(timer, &when);
	mix(s, (uint64_t)when.it_value.tv_nsec);
	mix(s, (uint64_t)timer_delete(timer));
	/* Not a process that ends while its last thread is being made: such an end is not replayed. */
	usleep(5000);
	pthread_mutex_lock(&e->mutex);
	mix(s, e->value);
	pthread_mutex_unlock(&e->mutex);
}

const struct step life_steps[] = {
    {"cancels", cancels, 2},
    {"leaves_values", leaves_values, 2},
    {"meets", meets, 2},
    {"locks_words", locks_words, 2},
    {"faults", faults, 3},
    {"swaps_contexts", swaps_contexts, 2},
    {"awaits_signal", awaits_signal, 3},
    {"expires", expires, 2},
    {0},
};
