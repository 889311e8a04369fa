/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * signals.c: handlers, in all the places where they can run.
 *
 *	signals CASE [SEED]
 *
 * Each case prints what its handlers found and when, as far as the calls of the
 * program tell: what differs from run to run must not differ in a replay.
 *
 * It asks libibverbs for devices (there need be none), so that the shim takes it
 * for an RDMA program.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "signals.h"

static volatile sig_atomic_t count, calls;
static sigjmp_buf back;
static unsigned int seed = 1;

void set_flags(int signo, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	if (sigaction(signo, &act, NULL))
		abort();
}

static void set(int signo, void (*handler)(int, siginfo_t *, void *))
{
	set_flags(signo, handler, 0);
}

long now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000l + ts.tv_nsec;
}

static void every(long usec)
{
	struct itimerval value = {{0, usec}, {0, usec}};

	setitimer(ITIMER_REAL, &value, NULL);
}

static void pair(int fds[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		abort();
}

/* A socket pair by way of TCP, which is captured. */
static void connected(int fds[2])
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (listen(listener, 1) || getsockname(listener, (void *)&addr, &len))
		abort();
	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (connect(fds[0], (void *)&addr, len))
		abort();
	fds[1] = accept(listener, NULL, NULL);
	close(listener);
}

/* ------------------------------------------------------------ in and between calls */

static void note(int signo, siginfo_t *info, void *context)
{
	int saved = errno;

	count++;
	printf("handler %d code %d at %ld\n", signo, info->si_code, now());
	errno = saved;
}

static void raised(void)
{
	set(SIGUSR1, note);
	set(SIGUSR2, note);
	raise(SIGUSR1);
	printf("count %d\n", (int)count);
	kill(getpid(), SIGUSR2);
	printf("count %d\n", (int)count);
	sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 7});
	printf("count %d\n", (int)count);
	pthread_kill(pthread_self(), SIGUSR2);
	printf("count %d\n", (int)count);
}

static void interrupted(void)
{
	struct pollfd fds;
	int socks[2], n;
	char c;

	connected(socks);
	set(SIGALRM, note);
	alarm(1);
	n = (int)read(socks[0], &c, 1);
	printf("read %d, %s\n", n, strerror(errno));
	ualarm(20000, 0);
	fds = (struct pollfd){socks[0], POLLIN, 0};
	n = poll(&fds, 1, -1);
	printf("poll %d, %s\n", n, strerror(errno));
	ualarm(20000, 0);
	n = usleep(500000);
	printf("usleep %d, %s\n", n, strerror(errno));
	ualarm(20000, 0);
	n = pause();
	printf("pause %d, %s, count %d\n", n, strerror(errno), (int)count);
}

static int restarting[2];

static void feed(int signo, siginfo_t *info, void *context)
{
	count++;
	if (count == 5 && write(restarting[1], "x", 1) != 1)
		abort();
}

static void restarted(void)
{
	char c = 0;
	int n;

	connected(restarting);
	set_flags(SIGALRM, feed, SA_RESTART);
	every(5000);
	n = (int)read(restarting[0], &c, 1);
	every(0);
	printf("read %d %c after at least 5: %d\n", n, c, count >= 5);
	printf("count %d\n", (int)count);
}

static void storm(void)
{
	set_flags(SIGALRM, note, SA_RESTART);
	every(300);
	while (count < 200) {
		calls++;
		if (now() % 7 == 0)
			getppid();
	}
	every(0);
	printf("%d calls, %d signals\n", (int)calls, (int)count);
}

/* Signals come in between: what happens at the next call. */
static void computing(void)
{
	volatile double x = 1;

	set_flags(SIGALRM, note, SA_RESTART);
	every(1000);
	while (count < 100) {
		for (int i = 0; i < 20000; i++)
			x = x * 1.0000001;
		calls++;
		getppid();
	}
	every(0);
	printf("%d\n", (int)calls);
}

/* ------------------------------------------------------------------------- jumps */

static void jump(int signo, siginfo_t *info, void *context)
{
	count++;
	getppid();
	siglongjmp(back, signo);
}

static void jumps(void)
{
	int socks[2];
	char c;

	connected(socks);
	set(SIGALRM, jump);
	for (volatile int i = 0; i < 50; i++) {
		int from = sigsetjmp(back, 1);

		if (!from) {
			ualarm(1000 + rand_r(&seed) % 1000, 0);
			if (read(socks[0], &c, 1) == 1)
				abort();
			abort();
		}
		printf("back by %d at %ld, time-out %d\n", from, now(), (int)count);
	}
	/* It is still recorded. */
	printf("%ld\n", now());
}

static void fault_jump(int signo, siginfo_t *info, void *context)
{
	printf("fault at %p code %d\n", info->si_addr, info->si_code);
	getppid();
	siglongjmp(back, 1);
}

static void faults(void)
{
	set(SIGSEGV, fault_jump);
	set(SIGBUS, fault_jump);
	set(SIGFPE, fault_jump);
	for (volatile int i = 0; i < 10; i++) {
		if (sigsetjmp(back, 1))
			printf("recovered at %ld\n", now());
		else
			*(volatile int *)(16l + i) = 1;
	}
	if (!sigsetjmp(back, 1)) {
		volatile int zero = 0;

		printf("%d\n", 1 / zero);
	}
	/* A buffer of the program's that cannot be read, by who intercepts the call. */
	for (volatile int i = 0; i < 3; i++) {
		int socks[2];
		const char *volatile bad = (char *)16;

		connected(socks);
		if (!sigsetjmp(back, 1)) {
			/* EFAULT without the shim. */
			if (write(socks[0], bad, 16) < 0)
				siglongjmp(back, 1);
		}
		printf("after a bad buffer %ld\n", now());
	}
}

static int __attribute__((noinline)) overflow(int n)
{
	volatile char room[4096];

	room[0] = (char)n;
	return n < 0 ? 0 : overflow(n + 1) + room[0];
}

static void overflows(void)
{
	stack_t stack = {.ss_sp = malloc(SIGSTKSZ * 4), .ss_size = SIGSTKSZ * 4};

	sigaltstack(&stack, NULL);
	set_flags(SIGSEGV, jump, SA_ONSTACK);
	for (volatile int i = 0; i < 3; i++) {
		if (sigsetjmp(back, 1))
			printf("recovered at %ld\n", now());
		else
			printf("%d\n", overflow(0));
	}
	set_flags(SIGUSR1, note, SA_ONSTACK);
	raise(SIGUSR1);
}

/* ------------------------------------------------------------- handlers that do much */

static int work[2];

static void busy(int signo, siginfo_t *info, void *context)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "%ld", now());

	count++;
	if (write(work[0], text, (size_t)n) != n ||
	    recv(work[1], text, (size_t)n, MSG_WAITALL) != n)
		abort();
	printf("%.*s\n", n, text);
	if (signo == SIGALRM && count % 3 == 0)
		raise(SIGUSR1);
	if (signo == SIGUSR1 && count % 2 == 0)
		kill(getpid(), SIGUSR2);
}

static void handlers_call(void)
{
	int socks[2];
	char c;

	connected(work);
	connected(socks);
	set_flags(SIGALRM, busy, SA_RESTART);
	set(SIGUSR1, busy);
	set(SIGUSR2, busy);
	every(2000);
	while (count < 60) {
		struct pollfd fds = {socks[0], POLLIN, 0};

		calls++;
		if (poll(&fds, 1, 3) > 0 && read(socks[0], &c, 1) == 1)
			abort();
	}
	every(0);
	printf("%d calls\n", (int)calls);
}

static void nest(int signo, siginfo_t *info, void *context)
{
	printf("%d begins at %ld\n", signo, now());
	if (signo < SIGRTMIN + 4) {
		struct timespec a_while = {.tv_nsec = 100000};

		pthread_kill(pthread_self(), signo + 1);
		nanosleep(&a_while, NULL);
	}
	printf("%d ends at %ld\n", signo, now());
}

static void nested(void)
{
	stack_t stack = {.ss_sp = malloc(1 << 18), .ss_size = 1 << 18};
	sigset_t set_of, old;

	sigaltstack(&stack, NULL);
	for (int i = 0; i < 5; i++)
		set_flags(SIGRTMIN + i, nest, i % 2 ? SA_ONSTACK : 0);
	raise(SIGRTMIN);
	/* Pending ones come when they are let. */
	sigemptyset(&set_of);
	for (int i = 0; i < 5; i++)
		sigaddset(&set_of, SIGRTMIN + i);
	sigprocmask(SIG_BLOCK, &set_of, &old);
	for (int i = 0; i < 5; i++)
		raise(SIGRTMIN + (i * 3) % 5);
	sigpending(&set_of);
	printf("%d%d pending at %ld\n", sigismember(&set_of, SIGRTMIN),
	       sigismember(&set_of, SIGUSR1), now());
	sigprocmask(SIG_SETMASK, &old, NULL);
	printf("done at %ld\n", now());
}

static void count_only(int signo, siginfo_t *info, void *context)
{
	count++;
}

static void waits(void)
{
	sigset_t some, none, old;
	siginfo_t info;
	struct timespec no_time = {0}, a_second = {1, 0};
	int signo = 0, n;

	sigemptyset(&none);
	sigemptyset(&some);
	sigaddset(&some, SIGALRM);
	sigaddset(&some, SIGUSR1);
	sigaddset(&some, SIGUSR2);
	sigprocmask(SIG_BLOCK, &some, &old);
	ualarm(10000, 0);
	n = sigwait(&some, &signo);
	printf("sigwait %d %d\n", n, signo);
	sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 42});
	memset(&info, 0, sizeof(info));
	n = sigwaitinfo(&some, &info);
	printf("sigwaitinfo %d %d from %d\n", n, info.si_value.sival_int, info.si_pid);
	n = sigtimedwait(&some, &info, &no_time);
	printf("sigtimedwait %d %s\n", n, strerror(errno));
	ualarm(10000, 0);
	n = sigtimedwait(&some, NULL, &a_second);
	printf("sigtimedwait %d\n", n);
	set(SIGALRM, count_only);
	set(SIGUSR1, count_only);
	ualarm(10000, 0);
	n = sigsuspend(&none);
	printf("sigsuspend %d %s count %d at %ld\n", n, strerror(errno), (int)count, now());
	raise(SIGUSR1);
	n = sigsuspend(&none);
	printf("sigsuspend %d %s count %d at %ld\n", n, strerror(errno), (int)count, now());
}

static void timers(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1};
	struct itimerspec spec = {{0, 3000000}, {0, 3000000}}, left;
	struct itimerval value;
	timer_t timer;

	set(SIGRTMIN + 1, note);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		abort();
	timer_settime(timer, 0, &spec, NULL);
	while (count < 10)
		usleep(1000);
	timer_gettime(timer, &left);
	printf("left %ld, overrun %d\n", left.it_value.tv_nsec, timer_getoverrun(timer));
	timer_delete(timer);
	every(500000);
	getitimer(ITIMER_REAL, &value);
	printf("left %ld\n", (long)value.it_value.tv_usec);
	printf("alarm %u\n", alarm(0));
}

/* The old ways to say it. */
static void old(int signo)
{
	count++;
	printf("handler %d at %ld\n", signo, now());
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static void old_calls(void)
{
	struct sigaction act;

	printf("%d\n", signal(SIGUSR1, old) == SIG_DFL);
	raise(SIGUSR1);
	raise(SIGUSR1);
	printf("%d\n", signal(SIGUSR1, SIG_IGN) == old);
	raise(SIGUSR1);
	printf("%d\n", sysv_signal(SIGUSR1, old) == SIG_IGN);
	raise(SIGUSR1);
	sigaction(SIGUSR1, NULL, &act);
	printf("reset %d\n", act.sa_handler == SIG_DFL);
	printf("%d\n", sigset(SIGUSR2, old) == SIG_DFL);
	sighold(SIGUSR2);
	raise(SIGUSR2);
	printf("held %d\n", (int)count);
	sigrelse(SIGUSR2);
	printf("released %d\n", (int)count);
	sigignore(SIGUSR2);
	raise(SIGUSR2);
	siginterrupt(SIGALRM, 1);
	signal(SIGALRM, old);
	ualarm(10000, 0);
	printf("%d\n", usleep(1000000));
	printf("%d\n", sigblock(1 << (SIGUSR1 - 1)));
	printf("%d\n", sigsetmask(0) == 1 << (SIGUSR1 - 1));
}

/* ------------------------------------------------------------------------ threads */

static sem_t ready, done;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int stop;

static void in_thread(int signo, siginfo_t *info, void *context)
{
	int saved = errno;

	__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
	now();
	sem_post(&done);
	errno = saved;
}

static void *run(void *argument)
{
	long sum = 0, go_on = 1;

	sem_post(&ready);
	while (go_on) {
		pthread_mutex_lock(&lock);
		sum += now() & 1;
		go_on = !stop;
		pthread_mutex_unlock(&lock);
		if (sum % 5 == 0)
			free(malloc(100));
		if (sum % 11 == 3)
			usleep(50);
	}
	return (void *)sum;
}

#define THREADS 4

static void threads(void)
{
	pthread_t ids[THREADS];
	void *value;

	sem_init(&ready, 0, 0);
	sem_init(&done, 0, 0);
	set_flags(SIGUSR1, in_thread, SA_RESTART);
	for (int i = 0; i < THREADS; i++) {
		pthread_create(&ids[i], NULL, run, NULL);
		sem_wait(&ready);
	}
	for (int i = 0; i < 100; i++) {
		pthread_kill(ids[rand_r(&seed) % THREADS], SIGUSR1);
		if (rand_r(&seed) % 2)
			while (sem_wait(&done))
				;
	}
	pthread_mutex_lock(&lock);
	stop = 1;
	pthread_mutex_unlock(&lock);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(ids[i], &value);
		printf("sum %ld\n", (long)value);
	}
	printf("%d handled at %ld\n", (int)count, now());
}

static void *wait_for_ever(void *argument)
{
	int *socks = argument;
	char c;
	ssize_t n;

	sem_post(&ready);
	n = read(socks[0], &c, 1);
	printf("read %zd %s at %ld\n", n, strerror(errno), now());
	while (sem_wait(&done))
		;
	return NULL;
}

/* Threads that wait for what only a handler brings. */
static void waiting_threads(void)
{
	pthread_t id;
	int socks[2];

	sem_init(&ready, 0, 0);
	sem_init(&done, 0, 0);
	connected(socks);
	set(SIGUSR1, in_thread);
	pthread_create(&id, NULL, wait_for_ever, socks);
	sem_wait(&ready);
	usleep(20000);
	pthread_kill(id, SIGUSR1);
	pthread_join(id, NULL);
	printf("%d at %ld\n", (int)count, now());
}

static void clean_up(void *argument)
{
	printf("%s cleans up at %ld\n", (char *)argument, now());
}

static void end_thread(int signo, siginfo_t *info, void *context)
{
	pthread_cleanup_push(clean_up, "the handler");
	printf("the handler ends its thread at %ld\n", now());
	pthread_exit((void *)5l);
	pthread_cleanup_pop(0);
}

static void *wait_in_read(void *argument)
{
	stack_t stack = {.ss_sp = malloc(1 << 16), .ss_size = 1 << 16};
	char c;

	sigaltstack(&stack, NULL);
	pthread_cleanup_push(clean_up, "the thread");
	sem_post(&ready);
	(void)!read(*(int *)argument, &c, 1);
	pthread_cleanup_pop(1);
	return NULL;
}

/* Stacks are unwound through a handler's frame. */
static void ending_threads(void)
{
	int socks[2];
	pthread_t id;
	void *value;

	sem_init(&ready, 0, 0);
	connected(socks);
	set(SIGUSR1, end_thread);
	set_flags(SIGUSR2, end_thread, SA_ONSTACK);
	for (int i = 0; i < 6; i++) {
		pthread_create(&id, NULL, wait_in_read, &socks[0]);
		sem_wait(&ready);
		usleep(5000);
		if (i % 3 == 2)
			pthread_cancel(id);
		else
			pthread_kill(id, i % 3 ? SIGUSR2 : SIGUSR1);
		pthread_join(id, &value);
		printf("joined %ld at %ld\n", (long)value, now());
	}
}

static void *begin_and_end(void *argument)
{
	return (void *)(now() & 1);
}

/* Signals to the process, which any thread may take, in its first and last moments as well. */
static void signals_to_new_threads(void)
{
	pthread_t id;
	void *value;

	set_flags(SIGALRM, count_only, SA_RESTART);
	every(200);
	for (int i = 0; i < 150; i++) {
		pthread_create(&id, NULL, begin_and_end, NULL);
		pthread_join(id, &value);
		printf("%ld%c", (long)value, i % 50 == 49 ? '\n' : ' ');
	}
	every(0);
	printf("%d\n", count > 0);
}

/* ------------------------------------------------------------------- random ones */

static volatile sig_atomic_t in_malloc;

/* Handlers that interrupt each other must not print. */
static char lines[1 << 20];
static size_t used;

static void __attribute__((format(printf, 1, 2))) line(const char *format, ...)
{
	char text[100];
	va_list ap;
	size_t n;

	va_start(ap, format);
	n = (size_t)vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	memcpy(lines + __atomic_fetch_add(&used, n, __ATOMIC_RELAXED), text, n);
}

static void any(int signo, siginfo_t *info, void *context)
{
	static volatile int depth;
	int saved = errno;

	count++;
	depth++;
	line("%d in %d at %ld\n", signo, (int)depth, now());
	if (count % 5 == 0)
		usleep(200);
	if (count % 7 == 0)
		raise(SIGRTMIN + (int)count % 5);
	depth--;
	if (count % 11 == 0 && depth == 0 && !in_malloc) {
		line("jumps\n");
		siglongjmp(back, 1);
	}
	errno = saved;
}

static void note_calls(int signo, siginfo_t *info, void *context)
{
	count++;
	line("handler %d, number %d, after %d\n", signo, (int)count, (int)calls);
	getppid();
}

/* Many at once, while the machine has no time for the program. */
static void burst(void)
{
	enum { ROUNDS = 10, SIGNALS = 100 };
	pid_t me = getpid(), child;
	int status;

	for (int i = 0; i < 3; i++)
		set(SIGRTMIN + i, note_calls);
	child = fork();
	for (int i = 0; !child && i < ROUNDS; i++) {
		usleep(3000);
		kill(me, SIGSTOP);
		for (int k = 0; k < SIGNALS; k++)
			kill(me, SIGRTMIN + k % 3);
		kill(me, SIGCONT);
	}
	if (!child)
		_exit(0);
	while (count < ROUNDS * SIGNALS) {
		for (int i = 0; i < 20000; i++)
			calls++;
		getppid();
	}
	while (waitpid(child, &status, 0) < 0)
		;
	printf("%.*s", (int)used, lines);
}

/* Some other process sends signals to this one: at any time. */
static pid_t sender(void)
{
	pid_t me = getpid(), child;
	sigset_t all, old;

	/* No handler jumps out of fork. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &old);
	child = fork();
	sigprocmask(SIG_SETMASK, &old, NULL);
	if (child)
		return child;
	for (int i = 0; i < 400; i++) {
		kill(me, i % 3 ? SIGRTMIN + i % 6 : SIGALRM);
		usleep((useconds_t)(100 + rand_r(&seed) % 400));
	}
	kill(me, SIGUSR2);
	_exit(0);
}

static void end_of_any(int signo)
{
	stop = 1;
}

static void random_signals(void)
{
	stack_t stack = {.ss_sp = malloc(1 << 18), .ss_size = 1 << 18};
	/*
	 * Its frame may be made and another handler's on top of it, before it has begun: it
	 * must not be one that is jumped out of.
	 */
	struct sigaction last = {.sa_handler = end_of_any, .sa_flags = SA_RESTART};
	sigset_t all;
	int socks[2];
	char some[1000];

	connected(socks);
	sigaltstack(&stack, NULL);
	for (int i = 0; i < 6; i++)
		set_flags(SIGRTMIN + i, any, (i % 2 ? SA_ONSTACK : 0) | (i % 3 ? SA_RESTART : 0));
	set(SIGALRM, any);
	sigfillset(&all);
	last.sa_mask = all;
	sigaction(SIGUSR2, &last, NULL);
	if (!sigsetjmp(back, 1))
		sender();
	while (!stop) {
		struct pollfd fds = {socks[0], POLLIN, 0};
		volatile int i = 0;

		switch (rand_r(&seed) % 6) {
		case 0:
			if (poll(&fds, 1, 1) > 0)
				(void)!read(socks[0], some, sizeof(some));
			break;
		case 1:
			(void)!write(socks[1], "x", 1);
			break;
		case 2:
			in_malloc = 1;
			free(malloc((size_t)rand_r(&seed) % 5000));
			in_malloc = 0;
			break;
		case 3:
			while (i < 10000)
				i = i + 1;
			break;
		case 4:
			usleep(300);
			break;
		default:
			for (int k = 0; k < 20; k++)
				getppid();
		}
		calls++;
	}
	/* Those sent before that one, which comes first: out of printf nobody jumps. */
	sigprocmask(SIG_BLOCK, &all, NULL);
	printf("%.*s%d rounds, %d handlers\n", (int)used, lines, (int)calls, (int)count);
}

/* ---------------------------------------------------------------------- the end */

static void exits(int signo)
{
	printf("exit from a handler at %ld\n", now());
	exit(5);
}

static void exit_in_handler(void)
{
	int socks[2];
	char c;

	connected(socks);
	signal(SIGALRM, exits);
	ualarm(10000, 0);
	if (read(socks[0], &c, 1) == 1)
		abort();
	printf("not here\n");
}

static void aborted(int signo)
{
	printf("aborted at %ld\n", now());
	fflush(stdout);
	_exit(9);
}

static void aborts(void)
{
	signal(SIGABRT, aborted);
	abort();
}

static void ignored(void)
{
	signal(SIGUSR1, SIG_IGN);
	raise(SIGUSR1);
	signal(SIGPIPE, SIG_IGN);
	printf("%ld\n", now());
}

static volatile sig_atomic_t own_flag;

static void raise_own_flag(int signo)
{
	own_flag = 1;
}

static void *wait_in_poll(void *unused)
{
	(void)unused;
	return (void *)(intptr_t)poll(NULL, 0, -1);
}

/* The thread is in its call long before the handler that interrupts it is installed. */
static void installed_late(void)
{
	const struct timespec a_while = {.tv_nsec = 50000000};
	struct timespec now;
	pthread_t id;
	void *value;

	pthread_create(&id, NULL, wait_in_poll, NULL);
	nanosleep(&a_while, NULL);
	for (int i = 0; i < 5000; i++)
		clock_gettime(CLOCK_REALTIME, &now);
	signal(SIGUSR1, raise_own_flag);
	while (pthread_tryjoin_np(id, &value)) {
		pthread_kill(id, SIGUSR1);
		nanosleep(&a_while, NULL);
	}
	printf("%d %d\n", (int)(intptr_t)value, (int)own_flag);
}

/* ------------------------------------------- where a handler's variables lie */

#define FRAMES 60
static uintptr_t frames[FRAMES];

static void note_frame(int signo)
{
	if (count < FRAMES)
		frames[count++] = (uintptr_t)__builtin_frame_address(0);
}

/* At the beginning and at the end of calls, and in calls that wait. */
static void frames_in_calls(void)
{
	const struct itimerval often = {{0, 1500}, {0, 1500}};

	signal(SIGALRM, note_frame);
	setitimer(ITIMER_REAL, &often, NULL);
	while (count < FRAMES) {
		for (int i = 0; i < 3000; i++)
			now();
		usleep(500);
		poll(NULL, 0, 1);
	}
	setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
	for (int i = 0; i < FRAMES; i++)
		printf("%lx\n", (unsigned long)frames[i]);
}

static const struct signal_case cases[] = {
    {"raised", raised},
    {"interrupted", interrupted},
    {"restarted", restarted},
    {"storm", storm},
    {"computing", computing},
    {"burst", burst},
    {"jumps", jumps},
    {"faults", faults},
    {"overflows", overflows},
    {"handlers_call", handlers_call},
    {"nested", nested},
    {"waits", waits},
    {"timers", timers},
    {"old_calls", old_calls},
    {"threads", threads},
    {"waiting_threads", waiting_threads},
    {"ending_threads", ending_threads},
    {"signals_to_new_threads", signals_to_new_threads},
    {"random", random_signals},
    {"exit_in_handler", exit_in_handler},
    {"aborts", aborts},
    {"ignored", ignored},
    {"installed_late", installed_late},
    {"frames_in_calls", frames_in_calls},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
	const struct signal_case *const tables[] = {cases, computing_cases, shown_cases};
	struct ibv_device **devices = argc > 1 ? ibv_get_device_list(NULL) : NULL;

	if (devices)
		ibv_free_device_list(devices);
	if (argc > 2)
		seed = (unsigned int)strtoul(argv[2], NULL, 0);
	if (argc > 3)
		pair(work);
	for (size_t k = 0; k < sizeof(tables) / sizeof(*tables); k++)
		for (const struct signal_case *c = tables[k]; c->name; c++)
			if (argc == 1) {
				printf("%s\n", c->name);
			} else if (!strcmp(argv[1], c->name)) {
				c->run();
				return 3;
			}
	return 0;
}
