/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/requests.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/daemon/report.h"
#include "logd/nodes/directory.h"
#include "logd/ring/request.h"
#include "logd/service/log.h"
#include "logd/writer/drain.h"

/* Each of these answers the request.  True: it has taken fd over. */

static bool serve_hello(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	struct connection *c = &p->connection;
	struct sr_message reply;
	char error[sizeof(m->text)] = "";
	int err = recording_hello(&s->recordings, c, m, fd, error, sizeof(error));

	if (err) {
		log_line("process %d refused: %s", (int)c->pid, error[0] ? error : strerror(-err));
		connection_answer_error(c, m, err, error);
		return false;
	}
	sr_message_init(&reply, SR_MSG_HELLO);
	connection_answer(
	    c, m, &reply,
	    drain_doorbell_fd(s->recordings.drain, recording_of(&s->recordings, c)->doorbell));
	return false;
}

static bool serve_ring(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	struct recording *r = recording_of(&s->recordings, &p->connection);
	char error[sizeof(m->text)] = "";
	int err = -ENOTCONN;

	if (r && fd >= 0)
		err = recording_add_ring(r, m, fd, error, sizeof(error));
	connection_answer_error(&p->connection, m, err, error);
	return !err;
}

static bool serve_file(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	struct recording *r = recording_of(&s->recordings, &p->connection);
	int err = r && fd >= 0 ? recording_add_file(r, m, fd) : -ENOTCONN;

	connection_answer_error(&p->connection, m, err, "");
	return false;
}

static bool serve_finish(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	struct recording *r = recording_of(&s->recordings, &p->connection);

	if (r)
		recording_finish(r, m);
	else
		connection_answer_error(&p->connection, m, -ENOTCONN, "");
	return false;
}

static bool serve_status(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	int report = report_make(&s->recordings, s->socket_path);
	struct sr_message reply;

	if (report < 0) {
		connection_answer_error(&p->connection, m, report, "");
		return false;
	}
	sr_message_init(&reply, SR_MSG_STATUS);
	connection_answer(&p->connection, m, &reply, report);
	close(report);
	return false;
}

/* Does a process of p's session (without a session: any process) write to the trace? */
static bool is_written_to(const struct server *s, const struct peer *p)
{
	static const uint8_t any[SR_SESSION_BYTES];
	const uint8_t *session = p->wait.session;

	for (const struct recording *r = s->recordings.first; r; r = r->next) {
		if (r->place.device == p->trace_device && r->place.inode == p->trace_inode &&
		    (!memcmp(session, any, sizeof(any)) ||
		     !memcmp(session, r->session, sizeof(any))))
			return true;
	}
	return false;
}

void requests_answer_waits(struct server *s)
{
	for (struct peer *p = s->peers; p; p = p->next) {
		if (p->waits_for_trace && !is_written_to(s, p)) {
			p->waits_for_trace = false;
			connection_answer_error(&p->connection, &p->wait, 0, "");
		}
	}
}

static bool serve_wait(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	char dir[PATH_MAX] = "";
	ssize_t n = fd < 0 ? -1 : pread(fd, dir, sizeof(dir) - 1, 0);
	struct stat st;

	if (n <= 0 || stat(dir, &st)) {
		connection_answer_error(&p->connection, m, n <= 0 ? -EPROTO : -errno, "");
		return false;
	}
	p->trace_device = st.st_dev;
	p->trace_inode = st.st_ino;
	p->wait = *m;
	p->waits_for_trace = true;
	requests_answer_waits(s);
	return false;
}

static const struct {
	uint16_t type;
	bool (*serve)(struct server *s, struct peer *p, const struct sr_message *m, int fd);
} handlers[] = {
    {SR_MSG_HELLO, serve_hello},   {SR_MSG_RING, serve_ring},     {SR_MSG_FILE, serve_file},
    {SR_MSG_FINISH, serve_finish}, {SR_MSG_STATUS, serve_status}, {SR_MSG_WAIT_TRACE, serve_wait},
};

/* True: fd is taken over. */
static bool serve(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
		if (handlers[i].type == m->type)
			return handlers[i].serve(s, p, m, fd);
	if (!directory_serve(s->directory, &p->connection, m, fd))
		connection_answer_error(&p->connection, m, -EPROTO,
					"this sreplay-logd does not know that request");
	return false;
}

void request_serve(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	bool taken = false;

	if (p->stranger)
		connection_answer_error(&p->connection, m, -EACCES,
					"this sreplay-logd serves another user");
	else
		taken = serve(s, p, m, fd);
	if (fd >= 0 && !taken)
		close(fd);
}
