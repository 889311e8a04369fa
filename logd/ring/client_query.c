/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions to a daemon that any process of the user may ask. */
#include <string.h>
#include <sys/uio.h>

#include "logd/ring/client.h"
#include "logd/ring/client_private.h"

int sr_client_wait_trace(const char *socket_path, const char *trace_dir, const uint8_t *session,
			 int timeout_ms)
{
	struct iovec text = {(void *)trace_dir, strlen(trace_dir)};
	struct sr_message request, answer;
	int fd, ret, socket = sr_request_connect(socket_path);

	if (socket < 0)
		return socket;
	fd = sr_request_memfd(&text, 1);
	sr_message_init(&request, SR_MSG_WAIT_TRACE);
	if (session)
		memcpy(request.session, session, sizeof(request.session));
	ret = fd < 0 ? fd : sr_request(socket, &request, fd, &answer, NULL, timeout_ms);
	if (fd >= 0)
		sr_sys_close(fd);
	sr_sys_close(socket);
	return ret ? ret : answer.error;
}

int sr_client_status(const char *socket_path)
{
	struct sr_message request, answer;
	int fd = -1, ret, socket = sr_request_connect(socket_path);

	if (socket < 0)
		return socket;
	sr_message_init(&request, SR_MSG_STATUS);
	ret = sr_request(socket, &request, -1, &answer, &fd, ANSWER_MS);
	sr_sys_close(socket);
	if (!ret)
		ret = answer.error;
	if (ret && fd >= 0)
		sr_sys_close(fd);
	if (!ret && fd < 0)
		ret = -EPROTO;
	return ret ? ret : fd;
}
