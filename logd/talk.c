/* SPDX-License-Identifier: BSD-2-Clause */
#include "talk.h"

#include <errno.h>
#include <linux/memfd.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "highfd.h"
#include "rawsys.h"

void sr_message_init(struct sr_message *m, enum sr_message_type type)
{
	memset(m, 0, sizeof(*m));
	m->magic = SR_PROTOCOL_MAGIC;
	m->version = SR_PROTOCOL_VERSION;
	m->type = type;
}

/* A daemon of another user (but root) would get what is in this process's memory. */
static long check_daemon_user(int fd)
{
	struct ucred daemon;
	socklen_t size = sizeof(daemon);
	long ret = sr_sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &daemon, &size);

	if (!ret && daemon.uid != 0 && daemon.uid != (uid_t)sr_sys_geteuid())
		ret = -EACCES;
	return ret;
}

int sr_talk_connect(const char *socket_path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(socket_path);
	long ret;
	int fd;

	if (length >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, socket_path, length);
	fd = (int)sr_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	fd = sr_fd_raise(fd);
	do
		ret = sr_sys_connect(fd, &address, sizeof(address));
	while (ret == -EINTR);
	if (!ret)
		ret = check_daemon_user(fd);
	if (ret) {
		sr_sys_close(fd);
		return (int)ret;
	}
	return fd;
}

union fd_control {
	char bytes[CMSG_SPACE(sizeof(int))];
	struct cmsghdr align;
};

static int send_message(int socket, const struct sr_message *m, int fd)
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
		ret = sr_sys_sendmsg(socket, &message, MSG_NOSIGNAL);
	while (ret == -EINTR);
	return ret < 0 ? (int)ret : 0;
}

static int wait_readable(int socket, int64_t deadline)
{
	struct pollfd p = {.fd = socket, .events = POLLIN};

	for (;;) {
		int64_t left = deadline - sr_sys_now_ms();
		struct timespec timeout = sr_sys_ms(left > 0 ? left : 0);
		long ret = sr_sys_ppoll(&p, 1, &timeout);

		if (ret > 0)
			return 0;
		if (ret == 0)
			return -ETIMEDOUT;
		if (ret != -EINTR)
			return (int)ret;
	}
}

static int received_fd(const struct msghdr *message)
{
	const struct cmsghdr *c = CMSG_FIRSTHDR(message);
	int fd;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
	    c->cmsg_len != CMSG_LEN(sizeof(int)))
		return -1;
	memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return sr_fd_raise(fd);
}

static int receive_message(int socket, struct sr_message *m, int *fd)
{
	struct iovec iov = {m, sizeof(*m)};
	union fd_control control = {0};
	struct msghdr message = {.msg_iov = &iov,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	long ret = sr_sys_recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int got;

	if (ret < 0)
		return (int)ret;
	if (ret == 0)
		return -ECONNRESET;
	got = received_fd(&message);
	if (fd)
		*fd = got;
	else if (got >= 0)
		sr_sys_close(got);
	m->text[sizeof(m->text) - 1] = 0;
	if (ret != sizeof(*m) || m->magic != SR_PROTOCOL_MAGIC || m->version != SR_PROTOCOL_VERSION)
		return -EPROTO;
	return 0;
}

int sr_talk(int socket, const struct sr_message *request, int send_fd, struct sr_message *answer,
	    int *answer_fd, int timeout_ms)
{
	int64_t deadline = sr_sys_now_ms() + timeout_ms;
	int ret = send_message(socket, request, send_fd);

	if (answer_fd)
		*answer_fd = -1;
	/* A daemon that refused and hung up has left its reason. */
	if (ret == -EPIPE && !receive_message(socket, answer, answer_fd))
		return 0;
	if (ret)
		return ret;
	do {
		ret = wait_readable(socket, deadline);
		if (!ret)
			ret = receive_message(socket, answer, answer_fd);
	} while (ret == -EAGAIN || ret == -EINTR);
	return ret;
}

static long write_all(int fd, const unsigned char *data, size_t size)
{
	while (size) {
		long n = sr_sys_write(fd, data, size);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n ? n : -EIO;
		data += n;
		size -= (size_t)n;
	}
	return 0;
}

int sr_talk_memfd(const struct iovec *texts, int n)
{
	uint64_t limit[2] = {UINT64_MAX, UINT64_MAX}, size = 0;
	long err = 0;
	int fd;

	/* As in ring.c: no SIGXFSZ for the program. */
	sr_sys_getrlimit(RLIMIT_FSIZE, limit);
	for (int i = 0; i < n; i++)
		size += texts[i].iov_len;
	if (limit[0] < size)
		return -EFBIG;
	fd = (int)sr_sys_memfd_create("sreplay-text", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return fd;
	fd = sr_fd_raise(fd);
	for (int i = 0; i < n && !err; i++)
		err = write_all(fd, texts[i].iov_base, texts[i].iov_len);
	if (err) {
		sr_sys_close(fd);
		return (int)err;
	}
	return fd;
}
