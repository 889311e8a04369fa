/* SPDX-License-Identifier: BSD-2-Clause */
/* sockets.c: sockets and pipes, between its threads and to itself; nothing waits for ever. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "shared.h"

static int pairs[2][2]; /* of sockets and of pipes, that all threads use */

void prepare_sockets(void)
{
	socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pairs[0]);
	pipe2(pairs[1], O_NONBLOCK);
}

static void sends(struct self *s)
{
	uint32_t value = decide(s, 1u << 30);

	if (draw(s, 2))
		mix(s, (uint64_t)send(pairs[0][1], &value, sizeof(value), 0));
	else
		mix(s, (uint64_t)write(pairs[1][1], &value, sizeof(value)));
}

static void receives(struct self *s)
{
	uint32_t value = 0;
	struct pollfd fd = {.fd = pairs[draw(s, 2)][0], .events = POLLIN};

	mix(s, (uint64_t)poll(&fd, 1, (int)draw(s, 2)));
	mix(s, (uint64_t)fd.revents);
	mix(s, (uint64_t)read(fd.fd, &value, sizeof(value)));
	mix(s, value);
}

/* A connection to itself. */
static void connects(struct self *s)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(to);
	int listener = socket(AF_INET, SOCK_STREAM, 0), client, server;
	char text[64], got[64];
	int n;

	mix(s, (uint64_t)bind(listener, (struct sockaddr *)&to, sizeof(to)));
	mix(s, (uint64_t)listen(listener, 1));
	getsockname(listener, (struct sockaddr *)&to, &length);
	mix(s, to.sin_port);
	client = socket(AF_INET, SOCK_STREAM, 0);
	mix(s, (uint64_t)connect(client, (struct sockaddr *)&to, sizeof(to)));
	server = accept(listener, NULL, NULL);
	mix(s, (uint64_t)server);
	n = snprintf(text, sizeof(text), "hello %x", decide(s, 100000));
	mix(s, (uint64_t)send(client, text, (size_t)n, MSG_NOSIGNAL));
	mix(s, (uint64_t)recv(server, got, (size_t)n, MSG_WAITALL));
	mix_bytes(s, got, (size_t)n);
	shutdown(client, SHUT_WR);
	mix(s, (uint64_t)read(server, got, sizeof(got)));
	close(client);
	close(server);
	close(listener);
}

static void counts_events(struct self *s)
{
	int fd = eventfd(draw(s, 5), EFD_NONBLOCK), set = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = decide(s, 1000)};
	uint64_t value = 3;

	epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
	memset(&event, 0, sizeof(event));
	mix(s, (uint64_t)epoll_wait(set, &event, 1, 0));
	mix(s, event.data.u64);
	mix(s, (uint64_t)write(fd, &value, sizeof(value)));
	mix(s, (uint64_t)read(fd, &value, sizeof(value)));
	mix(s, value);
	close(set);
	close(fd);
}

static void waits_on_timer(struct self *s)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec when = {.it_value.tv_nsec = 1 + draw(s, 300000)};
	struct timeval limit = {.tv_usec = draw(s, 500)};
	uint64_t ticks = 0;
	fd_set set;

	timerfd_settime(fd, 0, &when, NULL);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	if (select(fd + 1, &set, NULL, NULL, &limit) == 1)
		mix(s, (uint64_t)read(fd, &ticks, sizeof(ticks)));
	mix(s, ticks);
	mix(s, (uint64_t)limit.tv_usec);
	close(fd);
}

static void duplicates(struct self *s)
{
	int fd = dup(pairs[draw(s, 2)][1]), other = fcntl(fd, F_DUPFD, 20 + draw(s, 30));

	mix(s, (uint64_t)fd);
	mix(s, (uint64_t)other);
	mix(s, (uint64_t)write(other, "dup!", 4));
	close(fd);
	close(other);
}

const struct step socket_steps[] = {
    {"sends", sends, 5},
    {"receives", receives, 6},
    {"connects", connects, 2},
    {"counts_events", counts_events, 2},
    {"waits_on_timer", waits_on_timer, 2},
    {"duplicates", duplicates, 1},
    {0},
};
