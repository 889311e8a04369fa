/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * posix_aio.c: asynchronous reads and writes as POSIX has them (aio.h).
 *
 *	posix_aio CASE OUTPUT     works on the file OUTPUT.data, prints into OUTPUT; without arguments: names the cases
 */
#include <aio.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "asynchronous.h"

#define BLOCK 4096
#define N     8

static char buffers[N][BLOCK];
static struct aiocb requests[N];

static struct aiocb request(int fd, int i)
{
	return (struct aiocb){.aio_fildes = fd, .aio_buf = buffers[i], .aio_nbytes = BLOCK, .aio_offset = (off_t)i * BLOCK};
}

static void poll_for(const struct aiocb *r)
{
	while (aio_error(r) == EINPROGRESS)
		;
}

static void print_end(struct aiocb *r)
{
	const int error = aio_error(r);

	fprintf(out, "%d %zd\n", error, aio_return(r));
}

static void write_all(void)
{
	for (int i = 0; i < N; i++) {
		memset(buffers[i], 'a' + i, BLOCK);
		requests[i] = request(file, i);
		aio_write(&requests[i]);
	}
}

static void polls(void)
{
	write_all();
	for (int i = 0; i < N; i++) {
		poll_for(&requests[i]);
		print_end(&requests[i]);
	}
	for (int i = 0; i < N; i++) {
		requests[i].aio_offset = (off_t)(N - 1 - i) * BLOCK;
		aio_read(&requests[i]);
	}
	for (int i = 0; i < N; i++)
		poll_for(&requests[i]);
	print_sum("found", buffers, sizeof(buffers));
}

static int suspend_for(const struct aiocb *r, long milliseconds)
{
	const struct timespec timeout = {milliseconds / 1000, milliseconds % 1000 * 1000000};

	return aio_suspend(&r, 1, &timeout) ? errno : 0;
}

static void suspends(void)
{
	struct aiocb sync = {.aio_fildes = file};

	write_all();
	for (int i = 0; i < N; i++)
		while (suspend_for(&requests[i], 10000))
			;
	aio_fsync(O_SYNC, &sync);
	fprintf(out, "suspended: %d\n", suspend_for(&sync, 10000));
	print_end(&sync);
	fprintf(out, "neither sync nor data: %d", aio_fsync(O_RDWR, &sync));
	fprintf(out, " %d\n", errno);
}

static volatile sig_atomic_t handled;

static void handler(int signal_number, siginfo_t *info, void *context)
{
	struct aiocb *r = info->si_value.sival_ptr;

	if (info->si_code == SI_ASYNCIO && !aio_error(r))
		handled += (int)aio_return(r);
}

static void by_signal(void)
{
	const struct sigaction act = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};

	sigaction(SIGUSR1, &act, NULL);
	write_all();
	poll_for(&requests[N - 1]);
	for (int i = 0; i < N; i++) {
		handled = 0;
		requests[i].aio_sigevent =
		    (struct sigevent){.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value.sival_ptr = &requests[i]};
		aio_read(&requests[i]);
		while (!handled)
			usleep(100);
		fprintf(out, "handled: %d\n", handled);
	}
}

static sem_t told;

static void tell(union sigval value)
{
	struct aiocb *r = value.sival_ptr;

	fprintf(out, "%ld: %d %zd\n", (long)(r - requests), aio_error(r), aio_return(r));
	sem_post(&told);
}

static void by_thread(void)
{
	sem_init(&told, 0, 0);
	write_all();
	poll_for(&requests[N - 1]);
	for (int i = 0; i < N; i++) {
		requests[i].aio_sigevent = (struct sigevent){
		    .sigev_notify = SIGEV_THREAD, .sigev_notify_function = tell, .sigev_value.sival_ptr = &requests[i]};
		aio_read(&requests[i]);
	}
	for (int i = 0; i < N; i++)
		sem_wait(&told);
}

static void lists(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = tell, .sigev_value.sival_ptr = &requests[1]};
	struct aiocb *list[N + 1] = {0};

	sem_init(&told, 0, 0);
	for (int i = 0; i < N; i++) {
		requests[i] = request(i == 3 ? -1 : file, i);
		requests[i].aio_lio_opcode = i == 5 ? LIO_NOP : LIO_WRITE;
		list[i] = &requests[i];
	}
	fprintf(out, "waited: %d", lio_listio(LIO_WAIT, list, N + 1, NULL));
	fprintf(out, " %d\n", errno);
	for (int i = 0; i < N; i++)
		print_end(&requests[i]);
	requests[3].aio_fildes = file;
	fprintf(out, "begun: %d\n", lio_listio(LIO_NOWAIT, list, N + 1, &event));
	sem_wait(&told);
	print_end(&requests[0]);
}

/* A pipe, whose content no file has, and in which a request waits. */
static void cancels(void)
{
	int ends[2];

	pipe(ends);
	for (int i = 0; i < 2; i++) {
		requests[i] = request(ends[0], i);
		requests[i].aio_nbytes = 10;
		aio_read(&requests[i]);
	}
	fprintf(out, "suspended: %d\n", suspend_for(&requests[0], 50));
	fprintf(out, "cancelled: %d, %d\n", aio_cancel(ends[0], &requests[1]), aio_cancel(ends[0], NULL));
	print_end(&requests[1]);
	write(ends[1], "0123456789", 10);
	poll_for(&requests[0]);
	print_end(&requests[0]);
	fprintf(out, "%.10s %d\n", buffers[0], aio_cancel(ends[0], NULL));
	requests[0].aio_reqprio = -1;
	fprintf(out, "priority: %d", aio_read(&requests[0]));
	fprintf(out, " %d\n", errno);
}

static void *copy_blocks(void *number)
{
	const int i = (int)(intptr_t)number;
	struct aiocb r = request(file, i);

	for (int round = 0; round < 20; round++) {
		snprintf(buffers[i], BLOCK, "%d %d", i, round);
		aio_write(&r);
		suspend_for(&r, 10000);
		aio_read(&r);
		poll_for(&r);
	}
	return NULL;
}

static void threads(void)
{
	pthread_t ids[4];

	for (int i = 0; i < 4; i++)
		pthread_create(&ids[i], NULL, copy_blocks, (void *)(intptr_t)i);
	for (int i = 0; i < 4; i++)
		pthread_join(ids[i], NULL);
	for (int i = 0; i < 4; i++)
		fprintf(out, "%s\n", buffers[i]);
}

/* Its requests are served by threads of its own. */
static void child(void)
{
	int status = -1;
	pid_t process;

	write_all();
	poll_for(&requests[N - 1]);
	fflush(out);
	process = fork();
	if (!process) {
		aio_read(&requests[2]);
		poll_for(&requests[2]);
		_exit(aio_return(&requests[2]) == BLOCK ? 7 : 1);
	}
	waitpid(process, &status, 0);
	fprintf(out, "child: %d\n", WEXITSTATUS(status));
}

static void copies(void)
{
	requests[0] = request(file, 0);
	requests[0].aio_nbytes = (size_t)read(in, buffers[0], BLOCK);
	aio_write(&requests[0]);
	poll_for(&requests[0]);
	print_end(&requests[0]);
}

int main(int argc, char **argv)
{
	static const struct a_case cases[] = {{"polls", polls}, {"suspends", suspends}, {"by_signal", by_signal}, {"by_thread", by_thread},
					      {"lists", lists}, {"cancels", cancels}, {"threads", threads},	  {"child", child},
					      {"copies", copies}};

	return run_case(cases, sizeof(cases) / sizeof(cases[0]), argc, argv);
}
