/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/request.h"

#include <errno.h>
#include <linux/memfd.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "logd/base/highfd.h"
#include "logd/base/rawsys.h"
#include "logd/ring/packet.h"
#include "logd/ring/place.h"

/* How long the daemon may take to give memory. */
#define MEMORY_MS 5000

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

/* As large as it has to be; the texts are not in it yet.  *given: by the daemon. */
static int make_memfd(uint64_t size, const char *socket_path, bool *given)
{
	uint64_t limit[2] = {UINT64_MAX, UINT64_MAX};
	struct sr_message request, answer;
	int fd = -1, socket, ret;

	/* As in ring.c: no SIGXFSZ for the program. */
	sr_sys_getrlimit(RLIMIT_FSIZE, limit);
	*given = limit[0] < size;
	if (!*given) {
		fd = (int)sr_sys_memfd_create("sreplay-text", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		return fd < 0 ? fd : sr_fd_raise(fd);
	}
	socket = sr_request_connect(socket_path);
	if (socket < 0)
		return socket;
	sr_message_init(&request, SR_MSG_MEMORY);
	request.value = size;
	ret = sr_request(socket, &request, -1, &answer, &fd, MEMORY_MS);
	sr_sys_close(socket);
	if (!ret)
		ret = answer.error;
	if (!ret && fd < 0)
		ret = -EPROTO;
	return ret ? ret : fd;
}

/* By memory, since writing is what the limit forbids. */
static int copy_into(int fd, const struct iovec *texts, int n, uint64_t size)
{
	unsigned char *to = sr_place(size);

	if (!sr_sys_is_error(to))
		to = sr_sys_mmap(to, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	if (sr_sys_is_error(to))
		return (int)(intptr_t)to;
	for (uint64_t i = 0, at = 0; i < (uint64_t)n; at += texts[i++].iov_len)
		memcpy(to + at, texts[i].iov_base, texts[i].iov_len);
	sr_sys_munmap(to, size);
	return 0;
}

int sr_request_memfd(const struct iovec *texts, int n, const char *socket_path)
{
	uint64_t size = 0;
	long err = 0;
	bool given;
	int fd;

	for (int i = 0; i < n; i++)
		size += texts[i].iov_len;
	fd = make_memfd(size, socket_path, &given);
	if (fd < 0)
		return fd;
	if (given)
		err = copy_into(fd, texts, n, size);
	for (int i = 0; i < n && !err && !given; i++)
		err = write_all(fd, texts[i].iov_base, texts[i].iov_len);
	if (err) {
		sr_sys_close(fd);
		return (int)err;
	}
	return fd;
}
