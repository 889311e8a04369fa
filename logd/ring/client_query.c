/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions to a daemon that any process of the user may ask. */
#include <string.h>
#include <sys/stat.h>

#include "logd/ring/client.h"
#include "logd/ring/client_private.h"

struct trace_wait {
	int64_t deadline; /* or -1 */
	const struct sr_request_wait *wait;
};

static bool trace_goes_on(void *owner, bool progress)
{
	const struct trace_wait *t = owner;

	return (t->deadline < 0 || sr_sys_now_ms() < t->deadline) &&
	       (!t->wait || t->wait->goes_on(t->wait->owner, progress));
}

/* The daemon does not look at the trace by its name, since that may wait for a file system. */
static int identify(struct sr_message *request, const char *trace_dir)
{
	struct stat st;
	struct sr_trace_identity identity;
	long err = sr_syscall(SYS_newfstatat, AT_FDCWD, SR_ARG(trace_dir), SR_ARG(&st), 0, 0, 0);

	if (err)
		return (int)err;
	identity = (struct sr_trace_identity){.device = st.st_dev, .inode = st.st_ino};
	memcpy(request->text, &identity, sizeof(identity));
	return 0;
}

int sr_client_wait_session(const char *socket_path, const char *trace_dir, const uint8_t *session,
			   int timeout_ms, const struct sr_request_wait *wait,
			   struct sr_session_end *end)
{
	struct trace_wait t = {timeout_ms < 0 ? -1 : sr_sys_now_ms() + timeout_ms, wait};
	const struct sr_request_wait both = {trace_goes_on, &t};
	struct sr_message request, answer;
	int ret, socket = sr_request_connect(socket_path);

	if (socket < 0)
		return socket;
	sr_message_init(&request, SR_MSG_WAIT_TRACE);
	if (session)
		memcpy(request.session, session, sizeof(request.session));
	ret = identify(&request, trace_dir);
	if (!ret)
		ret = sr_request_while(socket, &request, -1, &answer, NULL, &both);
	sr_sys_close(socket);
	if (ret || answer.error)
		return ret ? ret : answer.error;
	*end = (struct sr_session_end){(uint32_t)answer.rank, answer.thread, answer.value, answer.hello_flags};
	return 0;
}

int sr_client_wait_trace(const char *socket_path, const char *trace_dir, const uint8_t *session,
			 int timeout_ms, const struct sr_request_wait *wait)
{
	struct sr_session_end end;

	return sr_client_wait_session(socket_path, trace_dir, session, timeout_ms, wait, &end);
}

int sr_client_status(const char *socket_path, int timeout_ms)
{
	struct sr_message request, answer;
	int fd = -1, ret, socket = sr_request_connect(socket_path);

	if (socket < 0)
		return socket;
	sr_message_init(&request, SR_MSG_STATUS);
	ret = sr_request(socket, &request, -1, &answer, &fd, timeout_ms);
	sr_sys_close(socket);
	if (!ret)
		ret = answer.error;
	if (ret && fd >= 0)
		sr_sys_close(fd);
	if (!ret && fd < 0)
		ret = -EPROTO;
	return ret ? ret : fd;
}
