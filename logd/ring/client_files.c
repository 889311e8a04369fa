/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that the process reads. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "logd/base/rawsys.h"
#include "logd/ring/client.h"
#include "logd/ring/client_private.h"

static int request_file(struct sr_client *c, const struct sr_message *request, int fd)
{
	const struct sr_request_wait wait = sr_client_wait(c);
	struct sr_message answer;
	int ret;

	if (c->socket < 0)
		return -ECONNRESET;
	ret = sr_request_while(c->socket, request, fd, &answer, NULL, &wait);
	/* It is not the connection that is gone: another thread has closed the file. */
	if (ret == -EBADF && sr_sys_fcntl(fd, F_GETFD, 0) == -EBADF)
		return -ESTALE;
	if (sr_client_is_broken(ret) || ret == -ETIMEDOUT)
		sr_client_disconnect(c);
	return ret ? ret : answer.error;
}

static int add_file_locked(struct sr_client *c, const struct sr_message *request, int fd)
{
	int ret = -ENOTCONN;

	/* Waits for the next daemon: the content of the file may be another one later. */
	while (sr_client_is_live(c)) {
		ret = request_file(c, request, fd);
		if (!sr_client_is_broken(ret))
			break;
		sr_client_await(c);
		if (c->socket < 0)
			ret = -ETIMEDOUT;
		if (c->socket < 0)
			break;
	}
	if (ret == -ETIMEDOUT && sr_client_is_live(c))
		sr_client_give_up(c, ETIMEDOUT);
	return ret == -ETIMEDOUT ? -ENOTCONN : ret;
}

int sr_client_add_file(struct sr_client *c, int fd, const char *path, uint32_t note, bool keep)
{
	struct sr_message request;
	size_t size = strlen(path);
	int ret;

	sr_message_init(&request, SR_MSG_FILE);
	request.flags = keep ? SR_MESSAGE_KEEP : 0;
	request.value = note;
	if (size < sizeof(request.text))
		memcpy(request.text, path, size);
	if (!sr_client_lock(c))
		return -EDEADLK;
	ret = add_file_locked(c, &request, fd);
	sr_client_unlock(c);
	return ret;
}

/* The process goes on recorded in any case: a file is lost only if it is replaced now. */
void sr_client_await_held(struct sr_client *c)
{
	const struct sr_request_wait wait = sr_client_wait(c);
	struct sr_message request, answer;

	sr_message_init(&request, SR_MSG_HELD);
	if (!sr_client_lock(c))
		return;
	if (sr_client_is_live(c) && c->socket >= 0 &&
	    sr_client_is_broken(sr_request_while(c->socket, &request, -1, &answer, NULL, &wait)))
		sr_client_disconnect(c);
	sr_client_unlock(c);
}
