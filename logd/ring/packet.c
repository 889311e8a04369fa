/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/packet.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "logd/base/rawsys.h"

union fd_control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

int sr_packet_send(int socket, const struct sr_message *m, int fd)
{
	struct iovec iov = {(void *)m, sizeof(*m)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	union fd_control control = {0};
	long ret;

	if (fd >= 0) {
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.align), &fd, sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	do
		ret = sr_sys_sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (ret == -EINTR);
	return ret < 0 ? (int)ret : 0;
}

/* The first descriptor; a second one, for which a packet has room, is closed. */
static int received_fd(const struct msghdr *message)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(message);
	int fd, first = -1;
	size_t n;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
		return -1;
	n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
	for (size_t i = 0; i < n; i++) {
		memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
		if (first < 0)
			first = fd;
		else
			sr_sys_close(fd);
	}
	return first;
}

int sr_packet_receive(int socket, struct sr_message *m, int *fd)
{
	struct iovec iov = {m, sizeof(*m)};
	union fd_control control = {0};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	long ret;

	*fd = -1;
	memset(m, 0, sizeof(*m));
	do
		ret = sr_sys_recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	while (ret == -EINTR);
	if (ret < 0)
		return (int)ret;
	if (ret == 0)
		return -ECONNRESET;
	*fd = received_fd(&message);
	m->text[sizeof(m->text) - 1] = 0;
	if (ret != sizeof(*m) || m->magic != SR_PROTOCOL_MAGIC || m->version != SR_PROTOCOL_VERSION)
		return -EPROTO;
	return 0;
}
