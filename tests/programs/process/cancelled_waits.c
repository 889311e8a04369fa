/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cancelled_waits.c: threads that are cancelled while they wait in calls that are cancellation points: those that have wrappers,
 * and those whose system calls are trapped.
 *
 *     cancelled_waits
 *
 * Prints how each of them ended.  Exits with 4.
 */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <mqueue.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define SECONDS	   100   /* nobody waits for so long */
#define TIME_TO_WAIT 20000 /* us: by then it waits */

static char directory[] = "/tmp/cancelled.XXXXXX", fifo[64], locked[64];
static int ends[2], sockets[2], listener, holder, queue;
static mqd_t messages;
static sem_t sem;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static void opens(void)
{
	open(fifo, O_RDONLY);
}

static void opens_a_stream(void)
{
	fopen(fifo, "w");
}

static void reads(void)
{
	char c;

	CHECK(read(ends[0], &c, 1) == 1);
}

static void reads_pieces(void)
{
	char c;
	struct iovec piece = {&c, 1};

	CHECK(preadv2(ends[0], &piece, 1, -1, 0) == 1);
}

static void receives(void)
{
	char c;

	CHECK(recv(sockets[0], &c, 1, 0) == 1);
}

static void accepts(void)
{
	CHECK(accept(listener, NULL, NULL) >= 0);
}

static void polls(void)
{
	struct pollfd p = {ends[0], POLLIN, 0};

	poll(&p, 1, -1);
}

static void selects(void)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	select(ends[0] + 1, &set, NULL, NULL, NULL);
}

static void waits_for_events(void)
{
	struct epoll_event e = {EPOLLIN, {0}};
	int fd = epoll_create1(0);

	CHECK(!epoll_ctl(fd, EPOLL_CTL_ADD, ends[0], &e));
	epoll_wait(fd, &e, 1, -1);
}

static void waits_for_time(void)
{
	const struct itimerspec late = {.it_value = {SECONDS, 0}};
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t n;

	CHECK(!timerfd_settime(fd, 0, &late, NULL));
	CHECK(read(fd, &n, sizeof(n)) == sizeof(n));
}

static void waits_at_semaphore(void)
{
	sem_wait(&sem);
}

static void unlock(void *unused)
{
	pthread_mutex_unlock(&mutex);
}

static void waits_at_condition(void)
{
	pthread_mutex_lock(&mutex);
	pthread_cleanup_push(unlock, NULL);
	pthread_cond_wait(&cond, &mutex);
	pthread_cleanup_pop(1);
}

static void sleeps(void)
{
	nanosleep(&(struct timespec){SECONDS, 0}, NULL);
}

static void pauses(void)
{
	pause();
}

static void waits_for_signal(void)
{
	sigset_t set;
	int signo;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigwait(&set, &signo);
}

static void receives_of_system_v(void)
{
	struct {
		long type;
		char c;
	} m;

	msgrcv(queue, &m, 1, 0, 0);
}

static void receives_of_posix(void)
{
	char text[64];

	mq_receive(messages, text, sizeof(text), NULL);
}

static void locks_a_file(void)
{
	int fd = open(locked, O_RDWR);
	struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	fcntl(fd, F_OFD_SETLKW, &all);
}

static void waits_for_child(void)
{
	pid_t child = fork();

	if (!child) {
		usleep(5 * TIME_TO_WAIT);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static const struct {
	const char *name;
	void (*wait)(void);
} waits[] = {
    {"open", opens},		     {"fopen", opens_a_stream},	      {"read", reads},
    {"preadv2", reads_pieces},	     {"recv", receives},	      {"accept", accepts},
    {"poll", polls},		     {"select", selects},	      {"epoll_wait", waits_for_events},
    {"timerfd", waits_for_time},     {"sem_wait", waits_at_semaphore}, {"pthread_cond_wait", waits_at_condition},
    {"nanosleep", sleeps},	     {"pause", pauses},		      {"sigwait", waits_for_signal},
    {"msgrcv", receives_of_system_v}, {"mq_receive", receives_of_posix}, {"fcntl", locks_a_file},
    {"waitpid", waits_for_child},
};

static void prepare(void)
{
	const struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct mq_attr few = {.mq_maxmsg = 1, .mq_msgsize = 64};

	CHECK(mkdtemp(directory));
	snprintf(fifo, sizeof(fifo), "%s/fifo", directory);
	snprintf(locked, sizeof(locked), "%s/locked", directory);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
	CHECK(!mkfifo(fifo, 0600) && !pipe(ends) && !socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) && !sem_init(&sem, 0, 0));
	holder = open(locked, O_RDWR | O_CREAT, 0600);
	CHECK(!fcntl(holder, F_OFD_SETLKW, &all));
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(!bind(listener, (struct sockaddr *)&address, sizeof(address)) && !listen(listener, 1));
	CHECK(!unlink(address.sun_path));
	queue = msgget(IPC_PRIVATE, 0600);
	messages = mq_open("/sreplay-cancelled", O_RDWR | O_CREAT, 0600, &few);
	CHECK(queue >= 0 && messages >= 0 && !mq_unlink("/sreplay-cancelled"));
}

static void clean_up(void)
{
	msgctl(queue, IPC_RMID, NULL);
	CHECK(!unlink(fifo) && !unlink(locked) && !rmdir(directory));
}

static void note(void *cleaned)
{
	*(bool *)cleaned = true;
}

static bool cleaned;

static void *wait_in(void *call)
{
	pthread_cleanup_push(note, &cleaned);
	((void (*)(void))call)();
	pthread_cleanup_pop(0);
	return NULL;
}

static void cancel_in(size_t i)
{
	pthread_t thread;
	void *result;

	cleaned = false;
	CHECK(!pthread_create(&thread, NULL, wait_in, (void *)waits[i].wait));
	usleep(TIME_TO_WAIT);
	CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result));
	printf("%s: %s%s\n", waits[i].name, result == PTHREAD_CANCELED ? "cancelled" : "ended", cleaned ? ", cleaned up" : "");
}

int main(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL) && !ibv_fork_init());
	prepare();
	for (size_t i = 0; i < sizeof(waits) / sizeof(*waits); i++)
		cancel_in(i);
	clean_up();
	return 4;
}
