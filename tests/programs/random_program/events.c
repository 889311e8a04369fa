/* SPDX-License-Identifier: BSD-2-Clause */
/* events.c: servers that wait for several clients, timers, signals and files at once; descriptors that are passed on; trees of pipes. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared.h"

extern char **environ;

#define CLIENTS 4

struct client {
	pthread_t thread;
	int socket, stop; /* stop: an eventfd that counts those that have ended */
	unsigned int messages, seed;
};

static ssize_t read_again(int fd, void *bytes, size_t n)
{
	ssize_t got;

	while ((got = read(fd, bytes, n)) < 0 && errno == EINTR)
		;
	return got;
}

static int wait_for(int epoll, struct epoll_event *events, int n, int limit)
{
	int got;

	while ((got = epoll_wait(epoll, events, n, limit)) < 0 && errno == EINTR)
		;
	return got;
}

static void *ask(void *argument)
{
	struct client *c = argument;
	const uint64_t one = 1;
	char text[64], answer[64];

	for (unsigned int i = 0; i < c->messages; i++) {
		int n = snprintf(text, sizeof(text), "%u of %u", i, c->seed);

		if (write(c->socket, text, (size_t)n) != n || read_again(c->socket, answer, sizeof(answer)) <= 0)
			break;
		c->seed = c->seed * 31 + (unsigned char)answer[0];
	}
	close(c->socket);
	(void)!write(c->stop, &one, sizeof(one));
	return NULL;
}

static void watch(int epoll, int fd, uint32_t events)
{
	struct epoll_event e = {.events = events, .data.fd = fd};

	epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e);
}

/* Answers one client; false: it has gone. */
static int answer(struct self *s, int epoll, int fd)
{
	char bytes[64] = "";
	ssize_t n = read_again(fd, bytes, sizeof(bytes));

	mix(s, (uint64_t)n);
	mix_bytes(s, bytes, n > 0 ? (size_t)n : 0);
	if (n > 0) {
		bytes[0] = (char)decide(s, 256);
		return write(fd, bytes, (size_t)n) == n;
	}
	epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
	close(fd);
	return 0;
}

/* Threads ask, this one answers whoever comes; a timer ticks meanwhile. */
static void serves(struct self *s)
{
	struct client clients[CLIENTS];
	struct epoll_event events[3];
	const struct itimerspec tick = {.it_value.tv_nsec = 300000, .it_interval.tv_nsec = 300000};
	unsigned int n = 1 + draw(s, CLIENTS), gone = 0;
	int epoll = epoll_create1(0), stop = eventfd(0, EFD_NONBLOCK), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), pair[2];
	uint64_t count;

	watch(epoll, stop, EPOLLIN | (draw(s, 2) ? EPOLLET : 0));
	watch(epoll, timer, EPOLLIN);
	timerfd_settime(timer, 0, &tick, NULL);
	for (unsigned int i = 0; i < n; i++) {
		socketpair(AF_UNIX, draw(s, 2) ? SOCK_SEQPACKET : SOCK_STREAM, 0, pair);
		clients[i] = (struct client){.socket = pair[0], .stop = stop, .messages = 1 + draw(s, 20), .seed = draw(s, 1000)};
		watch(epoll, pair[1], EPOLLIN | EPOLLRDHUP);
		pthread_create(&clients[i].thread, NULL, ask, &clients[i]);
	}
	while (gone < n) {
		int got = wait_for(epoll, events, 3, -1);

		mix(s, (uint64_t)got);
		for (int i = 0; i < got; i++) {
			int fd = events[i].data.fd;

			mix(s, events[i].events);
			if (fd == stop || fd == timer)
				mix(s, read(fd, &count, sizeof(count)) == sizeof(count) ? count : (uint64_t)errno);
			else
				gone += !answer(s, epoll, fd);
		}
	}
	for (unsigned int i = 0; i < n; i++) {
		pthread_join(clients[i].thread, NULL);
		mix(s, clients[i].seed);
	}
	close(epoll);
	close(stop);
	close(timer);
}

/* A timer's expirations and a child's end come by descriptors. */
static void waits_by_descriptors(struct self *s)
{
	const struct itimerspec soon = {.it_value.tv_nsec = 1 + draw(s, 400000)};
	struct signalfd_siginfo info;
	sigset_t set, old;
	int signals, timer = timerfd_create(draw(s, 2) ? CLOCK_MONOTONIC : CLOCK_REALTIME, 0);
	struct pollfd p[2];
	uint64_t count;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	signals = signalfd(-1, &set, SFD_CLOEXEC);
	timerfd_settime(timer, 0, &soon, NULL);
	pthread_sigqueue(pthread_self(), SIGRTMIN + 3, (union sigval){.sival_int = (int)draw(s, 1000)});
	p[0] = (struct pollfd){.fd = signals, .events = POLLIN};
	p[1] = (struct pollfd){.fd = timer, .events = POLLIN};
	for (int left = 2; left;) {
		int got = poll(p, 2, -1);

		mix(s, got < 0 ? (uint64_t)errno : (uint64_t)got);
		if (got <= 0)
			continue;
		if (p[0].revents & POLLIN && read_again(signals, &info, sizeof(info)) == sizeof(info)) {
			mix(s, info.ssi_signo);
			mix(s, (uint64_t)info.ssi_int);
			p[0].fd = -1;
			left--;
		}
		if (p[1].revents & POLLIN && read_again(timer, &count, sizeof(count)) == sizeof(count)) {
			mix(s, count);
			p[1].fd = -1;
			left--;
		}
		p[0].revents = p[1].revents = 0;
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	close(signals);
	close(timer);
}

/* What happens in a directory of its own. */
static void watches_directory(struct self *s)
{
	char directory[32], name[64], other[64], bytes[1024] __attribute__((aligned(8)));
	int fd, notes = inotify_init1(IN_NONBLOCK);
	ssize_t n;

	snprintf(directory, sizeof(directory), "watched-%d", s->number);
	mkdir(directory, 0700);
	mix(s, (uint64_t)inotify_add_watch(notes, directory, IN_CREATE | IN_MODIFY | IN_MOVED_TO | IN_DELETE | IN_CLOSE_WRITE));
	snprintf(name, sizeof(name), "%s/a%u", directory, draw(s, 3));
	snprintf(other, sizeof(other), "%s/b%u", directory, draw(s, 3));
	fd = open(name, O_CREAT | O_WRONLY, 0600);
	for (unsigned int i = draw(s, 3); i; i--)
		mix(s, (uint64_t)write(fd, "text", 1 + draw(s, 4)));
	close(fd);
	mix(s, (uint64_t)rename(name, other));
	if (draw(s, 2))
		unlink(other);
	while ((n = read(notes, bytes, sizeof(bytes))) > 0)
		for (char *at = bytes; at < bytes + n;) {
			const struct inotify_event *e = (const void *)at;

			mix(s, e->mask);
			mix_bytes(s, e->name, e->len ? strlen(e->name) : 0);
			at += sizeof(*e) + e->len;
		}
	mix(s, (uint64_t)errno);
	close(notes);
}

/* ---------------------------------------------------------------- descriptors */

static void send_descriptors(int to, const int *fds, size_t n)
{
	char room[CMSG_SPACE(2 * sizeof(int))] = {0};
	struct iovec one = {"x", 1};
	struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = CMSG_SPACE(n * sizeof(int))};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n * sizeof(int));
	memcpy(CMSG_DATA(c), fds, n * sizeof(int));
	sendmsg(to, &m, 0);
}

static int receive_descriptors(int from, int *fds, int by_many)
{
	char room[CMSG_SPACE(2 * sizeof(int))] = {0}, byte;
	struct iovec one = {&byte, 1};
	struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
	struct mmsghdr many = {.msg_hdr = m};
	struct cmsghdr *c;
	int n;

	if (by_many ? recvmmsg(from, &many, 1, MSG_CMSG_CLOEXEC, NULL) != 1 : recvmsg(from, &m, MSG_CMSG_CLOEXEC) != 1)
		return 0;
	if (by_many)
		m = many.msg_hdr;
	if (!(c = CMSG_FIRSTHDR(&m)))
		return 0;
	n = (int)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(c), (size_t)n * sizeof(int));
	return n;
}

/* A pipe and a file of its own go to itself, or come from a child. */
static void passes_descriptors(struct self *s)
{
	int pair[2], ends[2], fds[2], got[2] = {-1, -1}, n, from_child = (int)draw(s, 2), status = 0;
	char name[32], bytes[32] = "";
	pid_t child = 0;

	socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	pipe(ends);
	snprintf(name, sizeof(name), "passed-%d", s->number);
	fds[0] = ends[1];
	fds[1] = open(name, O_RDWR | O_CREAT | O_APPEND, 0600);
	if (!from_child || !(child = fork())) {
		send_descriptors(pair[0], fds, 2);
		if (from_child)
			_exit(write(ends[1], "child", 5) != 5);
	}
	n = receive_descriptors(pair[1], got, (int)draw(s, 3) == 0);
	mix(s, (uint64_t)n);
	for (int i = 0; i < n; i++)
		mix(s, (uint64_t)got[i]);
	while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	mix(s, (uint64_t)status);
	mix(s, (uint64_t)write(got[0], "through", 7));
	mix(s, (uint64_t)read_again(ends[0], bytes, sizeof(bytes)));
	mix_bytes(s, bytes, sizeof(bytes));
	snprintf(bytes, sizeof(bytes), "%x\n", decide(s, 1000));
	mix(s, (uint64_t)write(got[1], bytes, strlen(bytes)));
	mix(s, (uint64_t)lseek(fds[1], 0, SEEK_END));
	mix(s, (uint64_t)pread(got[1], bytes, sizeof(bytes), 0));
	mix_bytes(s, bytes, sizeof(bytes));
	for (int i = 0; i < 2; i++) {
		close(pair[i]);
		close(ends[i]);
		close(got[i]);
	}
	close(fds[1]);
}

/* ------------------------------------------------------------- trees of pipes */

/* Children, each with a child of its own, write into pipes in any order. */
static void has_grandchildren(struct self *s)
{
	struct pollfd p[3];
	pid_t children[3];
	char bytes[64];
	int n = 1 + (int)draw(s, 3), left = n, ends[2], status;

	for (int i = 0; i < n; i++) {
		unsigned int delay = draw(s, 500);

		pipe2(ends, O_CLOEXEC);
		children[i] = fork();
		if (!children[i]) {
			pid_t child = fork();

			usleep(delay);
			snprintf(bytes, sizeof(bytes), "%d: %d\n", (int)getpid(), child > 0);
			(void)!write(ends[1], bytes, strlen(bytes));
			if (child > 0)
				waitpid(child, NULL, 0);
			_exit(i);
		}
		close(ends[1]);
		p[i] = (struct pollfd){.fd = ends[0], .events = POLLIN};
	}
	while (left) {
		int got = poll(p, (nfds_t)n, -1);

		mix(s, got < 0 ? (uint64_t)errno : (uint64_t)got);
		for (int i = 0; got > 0 && i < n; i++) {
			ssize_t length = p[i].fd >= 0 && p[i].revents ? read_again(p[i].fd, bytes, sizeof(bytes)) : -1;

			if (length > 0)
				mix_bytes(s, bytes, (size_t)length);
			if (length)
				continue;
			close(p[i].fd);
			p[i].fd = -1;
			left--;
		}
	}
	for (int i = 0; i < n; i++) {
		while (waitpid(children[i], &status, 0) < 0 && errno == EINTR)
			;
		mix(s, (uint64_t)status);
	}
}

/* A filter between two pipes, with actions on its descriptors. */
static void spawns_filter(struct self *s)
{
	static char *const sort[] = {"sort", "-r", NULL}, *const cat[] = {"cat", "-n", NULL};
	char *const *arguments = draw(s, 2) ? sort : cat;
	posix_spawn_file_actions_t actions;
	int in[2], out[2], status;
	char bytes[64];
	pid_t child;
	ssize_t n;

	pipe2(in, O_CLOEXEC);
	pipe2(out, O_CLOEXEC);
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, in[0], 0);
	posix_spawn_file_actions_adddup2(&actions, out[1], 1);
	pthread_rwlock_rdlock(&environment_lock);
	mix(s, (uint64_t)posix_spawnp(&child, arguments[0], &actions, NULL, arguments, environ));
	pthread_rwlock_unlock(&environment_lock);
	posix_spawn_file_actions_destroy(&actions);
	close(in[0]);
	close(out[1]);
	for (unsigned int i = 1 + draw(s, 5); i; i--) {
		snprintf(bytes, sizeof(bytes), "%x\n", decide(s, 1000) + i);
		mix(s, (uint64_t)write(in[1], bytes, strlen(bytes)));
	}
	close(in[1]);
	while ((n = read_again(out[0], bytes, sizeof(bytes))) > 0)
		mix_bytes(s, bytes, (size_t)n);
	close(out[0]);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	mix(s, (uint64_t)status);
}

/* --------------------------------------------------------------- mapped files */

/* Stores and loads of a mapping among reads and writes of the descriptor. */
static void mixes_mapping(struct self *s)
{
	char name[32], bytes[64];
	unsigned char *p;
	int fd;

	snprintf(name, sizeof(name), "mixed-%d", s->number);
	fd = open(name, O_RDWR | O_CREAT, 0600);
	mix(s, (uint64_t)ftruncate(fd, 8192));
	p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (unsigned int i = 1 + draw(s, 8); i; i--) {
		unsigned int at = draw(s, 8000);

		switch (draw(s, 5)) {
		case 0:
			p[at] = (unsigned char)decide(s, 256);
			break;
		case 1:
			memset(bytes, (int)decide(s, 256), sizeof(bytes));
			mix(s, (uint64_t)pwrite(fd, bytes, 1 + draw(s, 60), at));
			break;
		case 2:
			mix(s, (uint64_t)pread(fd, bytes, sizeof(bytes), at));
			mix_bytes(s, bytes, sizeof(bytes));
			break;
		case 3:
			mix_bytes(s, p + at, 16);
			break;
		default:
			mix(s, (uint64_t)msync(p, 8192, draw(s, 2) ? MS_SYNC : MS_ASYNC));
		}
	}
	munmap(p, 8192);
	if (!draw(s, 3))
		mix(s, (uint64_t)unlink(name));
	close(fd);
}

const struct step event_steps[] = {
    {"serves", serves, 3},
    {"waits_by_descriptors", waits_by_descriptors, 3},
    {"watches_directory", watches_directory, 2},
    {"passes_descriptors", passes_descriptors, 3},
    {"has_grandchildren", has_grandchildren, 1},
    {"spawns_filter", spawns_filter, 1},
    {"mixes_mapping", mixes_mapping, 3},
    {0},
};
