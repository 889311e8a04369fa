/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * diverge.c: does what it was recorded doing, or not, as its argument says; the
 * test changes that argument in the trace.  It prints the lines in which that
 * happens, for the test to find them in the report.
 *
 * Modes, of the same length so that the stack stays where it is: "same", "call"
 * (another call), "args" (other arguments), "stop" (an early end), "more" (a
 * call behind the recorded end), "hang" (waits for ever), "heap" (leaves out an
 * operation on the heap, behind one of the other thread).
 */
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#define ROUNDS 20
#define TURN   13

static const char *mode;
static int to_itself;

static int is(const char *what)
{
	return !strcmp(mode, what);
}

__attribute__((noinline)) static void wait_for_ever(void)
{
	for (;;)
		__asm__ volatile("");
}

static void use_heap(void)
{
	void *volatile p = malloc(100);

	free(p);
}

/* A second thread, which makes one call and then waits until the process ends. */
static sem_t begun, never;

static void *other_thread(void *argument)
{
	char byte;

	use_heap();
	getrandom(&byte, 1, 0);
	sem_post(&begun);
	sem_wait(&never); /* other */
	return NULL;
}

__attribute__((noinline)) static void turn(void)
{
	char text[200];
	pid_t pid;

	if (!is("heap"))
		use_heap();
	memset(text, 'a', sizeof(text));
	if (is("args"))
		text[150] = 'b';
	if (is("call"))
		getrandom(text, 16, 0); /* call */
	if (is("stop"))
		exit(3);
	if (is("hang"))
		wait_for_ever();                /* hang */
	send(to_itself, text, sizeof(text), 0); /* turn */
	pid = getpid();
	if (pid < 0)
		exit(4);
}

static int connect_to_itself(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t size = sizeof(a);

	to_itself = socket(AF_INET, SOCK_DGRAM, 0);
	return to_itself < 0 || bind(to_itself, (struct sockaddr *)&a, sizeof(a)) ||
	       getsockname(to_itself, (struct sockaddr *)&a, &size) ||
	       connect(to_itself, (struct sockaddr *)&a, size);
}

int main(int argc, char **argv)
{
	struct ibv_device **devices;
	pthread_t other;
	uint64_t number; /* two in a row are never equal: each is a record of its own */

	mode = argc > 1 ? argv[1] : "same";
	devices = ibv_get_device_list(NULL);
	if (devices)
		ibv_free_device_list(devices);
	if (connect_to_itself() || pthread_create(&other, NULL, other_thread, NULL))
		return 1;
	sem_wait(&begun);
	for (int i = 0; i < ROUNDS; i++) {
		if (i == TURN)
			turn();
		getrandom(&number, sizeof(number), 0);
	}
	if (is("more"))
		getrandom(&number, sizeof(number), 0); /* more */
	return 7;
}
