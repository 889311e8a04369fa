/* SPDX-License-Identifier: BSD-2-Clause */
/* Files that the process reads. */
#include <string.h>

#include "logd/ring/client.h"
#include "logd/ring/client_private.h"

static int request_file(struct sr_client *c, const struct sr_message *request, int fd)
{
	struct sr_message answer;
	int ret;

	if (c->socket < 0)
		return -ECONNRESET;
	ret = sr_request(c->socket, request, fd, &answer, NULL, RING_MS);
	if (sr_client_is_broken(ret) || ret == -ETIMEDOUT)
		sr_client_disconnect(c);
	return ret ? ret : answer.error;
}

static int add_file_locked(struct sr_client *c, const struct sr_message *request, int fd)
{
	int ret;

	if (!sr_client_is_live(c))
		return -ENOTCONN;
	ret = request_file(c, request, fd);
	if (!sr_client_is_broken(ret))
		return ret;
	/* Waits for the next daemon: the content of the file may be another one later. */
	for (int64_t end = sr_sys_now_ms() + SUCCESSOR_MS;
	     sr_client_is_live(c) && c->socket < 0 && sr_sys_now_ms() < end;) {
		struct timespec pause = sr_sys_ms(RETRY_MS);

		sr_client_reconnect(c);
		if (c->socket < 0)
			sr_sys_nanosleep(&pause);
	}
	return request_file(c, request, fd);
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
