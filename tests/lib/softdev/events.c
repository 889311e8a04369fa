/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * events.c: channels of completion events and of asynchronous events.
 *
 * The events are in the fabric.  The program's descriptor is a datagram socket, in which a message
 * waits as long as there are events: so it can be polled, and any process can wake the one that
 * waits, by the socket's name.
 */
#include "events.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "raw.h"

static int sender = -1;

static socklen_t name_of(struct sockaddr_un *a, uint32_t channel_1)
{
	const struct sd_channel *c = &sd_fabric->channels[channel_1 - 1];

	a->sun_family = AF_UNIX;
	a->sun_path[0] = 0;
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			   (size_t)snprintf(
			       a->sun_path + 1, sizeof(a->sun_path) - 1, "softdev/%016llx/%u.%u",
			       (unsigned long long)sd_fabric->id, channel_1, c->generation));
}

static int new_socket(void)
{
	return (int)syscall(SYS_socket, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

static void send_to(uint32_t channel_1)
{
	struct sockaddr_un a;
	socklen_t size = name_of(&a, channel_1);

	/* A program that has closed all its descriptors gets another one. */
	for (int tries = 0; tries < 2; tries++) {
		if (sender < 0) {
			int fd = new_socket(),
			    high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 900);

			sender = high < 0 ? fd : high;
			if (high >= 0)
				raw_close(fd);
		}
		if (syscall(SYS_sendto, sender, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, &a, size) ==
			1 ||
		    (errno != EBADF && errno != ENOTSOCK))
			return;
		sender = -1;
	}
}

static void wake(uint32_t channel_1)
{
	int writer = sd_fabric->channels[channel_1 - 1].writer;

	if (sd_has_driver)
		send_to(channel_1);
	else
		syscall(SYS_sendto, writer, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
}

void sd_channel_push(uint32_t channel_1, uint64_t event)
{
	struct sd_channel *c = &sd_fabric->channels[channel_1 - 1];

	if (!channel_1 || c->tail - c->head == SD_EVENTS)
		return; /* nobody took hundreds of them */
	((uint64_t *)sd_at(c->ring))[c->tail++ % SD_EVENTS] = event;
	if (c->tail - c->head == 1)
		wake(channel_1);
}

void sd_async(uint32_t channel_1, enum ibv_event_type type, uint32_t index)
{
	sd_channel_push(channel_1, (uint64_t)type << 32 | index);
}

static bool take_channel(uint32_t *channel_1, int writer)
{
	uint64_t ring;

	sd_lock();
	ring = sd_pages_take(SD_PAGE);
	*channel_1 = ring ? SD_TAKE(channels, channel_use, SD_MAX_CHANNEL) : 0;
	if (*channel_1) {
		struct sd_channel *c = &sd_fabric->channels[*channel_1 - 1];

		c->ring = ring;
		c->writer = writer;
		c->generation = ++sd_fabric->generations;
	}
	sd_unlock();
	return *channel_1;
}

static bool bind_name(int fd, uint32_t channel_1)
{
	struct sockaddr_un a;
	socklen_t size = name_of(&a, channel_1);

	return !syscall(SYS_bind, fd, &a, size);
}

int sd_channel_open(uint32_t *channel_1)
{
	int fds[2] = {-1, -1};

	/* Of a process's own fabric nobody else has to find them, and they get no name. */
	if (sd_has_driver)
		fds[0] = new_socket();
	else
		syscall(SYS_socketpair, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, fds);
	if (fds[0] < 0)
		return -errno;
	if (take_channel(channel_1, fds[1]) && (!sd_has_driver || bind_name(fds[0], *channel_1)))
		return fds[0];
	raw_close(fds[0]);
	if (fds[1] >= 0)
		raw_close(fds[1]);
	return -ENOSPC;
}

void sd_channel_remove(uint32_t channel_1)
{
	struct sd_channel *c = &sd_fabric->channels[channel_1 - 1];

	sd_pages_give(c->ring, SD_PAGE);
	c->process = 0;
	sd_give_entry(&sd_fabric->channel_use.low, channel_1);
}

void sd_channel_close(uint32_t channel_1, int fd)
{
	sd_lock();
	if (!sd_has_driver)
		raw_close(sd_fabric->channels[channel_1 - 1].writer);
	sd_channel_remove(channel_1);
	sd_unlock();
	raw_close(fd);
}

/* The last event takes the message with it; both happen with the lock held. */
static bool take(uint32_t channel_1, int fd, uint64_t *event)
{
	struct sd_channel *c = &sd_fabric->channels[channel_1 - 1];
	bool found;
	char byte;

	sd_lock();
	found = c->head != c->tail;
	if (found)
		*event = ((uint64_t *)sd_at(c->ring))[c->head++ % SD_EVENTS];
	if (found && c->head == c->tail)
		syscall(SYS_recvfrom, fd, &byte, 1, MSG_DONTWAIT, NULL, NULL);
	sd_unlock();
	return found;
}

int sd_channel_take(uint32_t channel_1, int fd, uint64_t *event)
{
	char byte;

	while (!take(channel_1, fd, event))
		/* libc's function: a thread can be cancelled here, as in read() of the real
		 * library. */
		if (recv(fd, &byte, 1, MSG_PEEK) < 0)
			return -1;
	return 0;
}

/* The queue or queue pair is going: nobody is told of it any more. */
void sd_channel_drop(uint32_t channel_1, int fd, bool (*is_its)(uint64_t event, uint32_t index),
		     uint32_t index)
{
	struct sd_channel *c = &sd_fabric->channels[channel_1 - 1];
	uint64_t *ring = sd_at(c->ring);
	uint32_t kept = c->head;
	char byte;

	if (c->head == c->tail)
		return;
	for (uint32_t i = c->head; i != c->tail; i++)
		if (!is_its(ring[i % SD_EVENTS], index))
			ring[kept++ % SD_EVENTS] = ring[i % SD_EVENTS];
	c->tail = kept;
	if (c->head == c->tail)
		syscall(SYS_recvfrom, fd, &byte, 1, MSG_DONTWAIT, NULL, NULL);
}
