/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/request.h"

#include <errno.h>
#include <linux/memfd.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "logd/base/highfd.h"
#include "logd/base/rawsys.h"
#include "logd/ring/packet.h"

void sr_message_init(struct sr_message *m, enum sr_message_type type)
{
	memset(m, 0, sizeof(*m));
	m->magic = SR_PROTOCOL_MAGIC;
	m->version = SR_PROTOCOL_VERSION;
	m->type = type;
}

/* The daemon gets data of this process, so it must be this user's, or root's. */
static long check_daemon_user(int fd)
{
	struct ucred daemon;
	socklen_t size = sizeof(daemon);
	long ret = sr_sys_getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &daemon, &size);

	if (!ret && daemon.uid != 0 && daemon.uid != (uid_t)sr_sys_geteuid())
		ret = -EACCES;
	return ret;
}

int sr_request_connect(const char *socket_path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t length = strlen(socket_path);
	long ret;
	int fd;

	if (length >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, socket_path, length);
	fd = (int)sr_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
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

/* 0, or -ETIMEDOUT when it is not worth waiting on.  *progress is reported, and reset. */
static int wait_for(int socket, short events, const struct sr_request_wait *wait, bool *progress)
{
	struct pollfd p = {.fd = socket, .events = events};

	for (;;) {
		struct timespec look = sr_sys_ms(SR_REQUEST_LOOK_MS);
		long ret;

		if (!wait->goes_on(wait->owner, *progress))
			return -ETIMEDOUT;
		*progress = false;
		ret = sr_sys_ppoll(&p, 1, &look);
		if (ret > 0)
			return 0;
		if (ret < 0 && ret != -EINTR)
			return (int)ret;
	}
}

int sr_request_send(int socket, const struct sr_message *m, int fd,
		    const struct sr_request_wait *wait)
{
	bool progress = false;
	int ret;

	while ((ret = sr_packet_send(socket, m, fd)) == -EAGAIN) {
		ret = wait_for(socket, POLLOUT, wait, &progress);
		if (ret)
			return ret;
	}
	return ret;
}

/* Passes the answer's descriptor on, or closes it. */
static void hand_on(int fd, int *answer_fd)
{
	if (answer_fd)
		*answer_fd = fd;
	else if (fd >= 0)
		sr_sys_close(fd);
}

/* Skips late answers to earlier requests, which were given up. */
static int receive_answer(int socket, uint32_t sequence, struct sr_message *answer, int *answer_fd,
			  const struct sr_request_wait *wait)
{
	bool progress = false;

	for (;;) {
		int fd, ret = sr_packet_receive(socket, answer, &fd);
		bool is_ours = !ret && answer->sequence == sequence;

		if (is_ours && answer->error != -EINPROGRESS) {
			hand_on(fd < 0 ? fd : sr_fd_raise(fd), answer_fd);
			return 0;
		}
		progress |= is_ours;
		if (ret == -EAGAIN)
			ret = wait_for(socket, POLLIN, wait, &progress);
		if (fd >= 0)
			sr_sys_close(fd);
		if (ret)
			return ret;
	}
}

static int receive_reason(int socket, struct sr_message *answer, int *answer_fd)
{
	int fd, ret = sr_packet_receive(socket, answer, &fd);

	hand_on(fd, answer_fd);
	return ret;
}

int sr_request_while(int socket, const struct sr_message *request, int send_fd,
		     struct sr_message *answer, int *answer_fd, const struct sr_request_wait *wait)
{
	static _Atomic uint32_t last_sequence;
	struct sr_message numbered = *request;
	int ret;

	if (answer_fd)
		*answer_fd = -1;
	numbered.sequence = atomic_fetch_add(&last_sequence, 1) + 1;
	ret = sr_request_send(socket, &numbered, send_fd, wait);
	/* A daemon that refuses and hangs up has sent its reason before. */
	if (ret == -EPIPE && !receive_reason(socket, answer, answer_fd))
		return 0;
	if (ret)
		return ret;
	return receive_answer(socket, numbered.sequence, answer, answer_fd, wait);
}

static bool is_before(void *deadline, bool progress)
{
	return sr_sys_now_ms() < *(int64_t *)deadline;
}

int sr_request(int socket, const struct sr_message *request, int send_fd, struct sr_message *answer,
	       int *answer_fd, int timeout_ms)
{
	int64_t deadline = sr_sys_now_ms() + timeout_ms;
	const struct sr_request_wait wait = {is_before, &deadline};

	return sr_request_while(socket, request, send_fd, answer, answer_fd, &wait);
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

int sr_request_memfd(const struct iovec *texts, int n)
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
