/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * alarmed.c: waits for a signal where the thread makes no call that is recorded.
 *
 *	alarmed value|protects|locks|holds
 *
 * value: behind a value of shared memory that a child stored, so that nothing of which a replay is told lies between its
 * load and the handler.  protects: in a loop of calls of mprotect, which are sections of the recorder's for most of the
 * time.  locks: in a loop with a mutex, whose owner has another id in a replay.  holds: while it has a mutex
 * on its stack.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t alarmed;

static void on_alarm(int signo)
{
	alarmed = signo;
}

static void await_alarm(long microseconds)
{
	const struct itimerval soon = {.it_value.tv_usec = microseconds};

	signal(SIGALRM, on_alarm);
	setitimer(ITIMER_REAL, &soon, NULL);
}

static void value(void *own)
{
	volatile int *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child = fork();

	if (!child) {
		usleep(20000);
		shared[0] = 7;
		_exit(0);
	}
	await_alarm(100000);
	while (!shared[0])
		;
	while (!alarmed && shared[0] == 7)
		mprotect(own, 4096, PROT_READ | PROT_WRITE);
	waitpid(child, NULL, 0);
}

static void protects(void *own)
{
	await_alarm(20000);
	while (!alarmed)
		mprotect(own, 4096, PROT_READ | PROT_WRITE);
}

static void locks(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	await_alarm(20000);
	while (!alarmed) {
		pthread_mutex_lock(&mutex);
		pthread_mutex_unlock(&mutex);
	}
}

static void holds(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	volatile unsigned long n = 0;

	await_alarm(20000);
	while (!alarmed) {
		pthread_mutex_lock(&mutex);
		for (int i = 0; i < 1000; i++)
			n += n * 31 + (unsigned long)i;
		pthread_mutex_unlock(&mutex);
	}
}

int main(int argc, char **argv)
{
	void *own = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (argc > 1 && !strcmp(argv[1], "protects"))
		protects(own);
	else if (argc > 1 && !strcmp(argv[1], "locks"))
		locks();
	else if (argc > 1 && !strcmp(argv[1], "holds"))
		holds();
	else
		value(own);
	printf("%d\n", alarmed);
	return 0;
}
