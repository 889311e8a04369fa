/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/requests.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "logd/daemon/report.h"
#include "logd/nodes/directory.h"
#include "logd/ring/request.h"
#include "logd/writer/drain.h"

/* Each of these sees to an answer, if the request has one.  True: it has taken fd over. */

static bool serve_hello(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	return recording_hello(&s->recordings, &p->connection, m, fd);
}

static bool serve_area(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	struct recording *r = recording_of(&s->recordings, &p->connection);
	int own = fd, err = r ? recording_add_area(r, m, &own) : -ENOTCONN;
	struct sr_message reply;

	if (err) {
		connection_answer_error(&p->connection, m, err, "");
		return false;
	}
	sr_message_init(&reply, SR_MSG_AREA);
	connection_answer(&p->connection, m, &reply, own == fd ? -1 : own);
	return own != fd;
}

static bool serve_file(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	struct recording *r = recording_of(&s->recordings, &p->connection);
	int err = r && fd >= 0 ? recording_add_file(r, m, fd) : -ENOTCONN;

	if (err)
		connection_answer_error(&p->connection, m, err, "");
	return false;
}

static bool serve_held(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	struct recording *r = recording_of(&s->recordings, &p->connection);
	int err = r ? recording_await_held(r, m) : -ENOTCONN;

	if (err)
		connection_answer_error(&p->connection, m, err, "");
	return false;
}

static bool serve_memory(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	int memfd = -1, err = m->value > SR_HELLO_MAX_TEXT ? -EFBIG : 0;
	struct sr_message reply;

	if (!err && (memfd = memfd_create("sreplay-text", MFD_CLOEXEC)) < 0)
		err = -errno;
	if (!err && ftruncate(memfd, (off_t)m->value))
		err = -errno;
	sr_message_init(&reply, SR_MSG_MEMORY);
	if (err)
		connection_answer_error(&p->connection, m, err, "");
	else
		connection_answer(&p->connection, m, &reply, memfd);
	if (memfd >= 0)
		close(memfd);
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

static bool is_of_session(const struct recording *r, const uint8_t *session)
{
	return !memcmp(session, r->session, SR_SESSION_BYTES);
}

/*
 * Does r write to the trace that p waits for, or is it about to?  Without a session p waits for any
 * process that writes to it.
 */
static bool concerns(const struct recording *r, const struct peer *p)
{
	static const uint8_t any[SR_SESSION_BYTES];
	const uint8_t *session = p->wait.session;

	if (r->claim)
		return r->connection && is_of_session(r, session);
	return r->place.device == p->trace.device && r->place.inode == p->trace.inode &&
	       (!memcmp(session, any, sizeof(any)) || is_of_session(r, session));
}

static bool is_written_to(const struct server *s, const struct peer *p)
{
	for (const struct recording *r = s->recordings.first; r; r = r->next)
		if (concerns(r, p))
			return true;
	return false;
}

/* With what was recorded in the asker's session. */
static void answer_wait(struct server *s, struct peer *p)
{
	const struct tally *t = tally_of(&s->recordings.tallies, p->wait.session);
	struct sr_message reply;

	sr_message_init(&reply, SR_MSG_WAIT_TRACE);
	if (t) {
		reply.rank = (int32_t)t->processes;
		reply.thread = t->late;
		reply.value = t->stored;
		reply.hello_flags = t->unrecorded;
	}
	connection_answer(&p->connection, &p->wait, &reply, -1);
}

void requests_answer_waits(struct server *s)
{
	for (struct peer *p = s->peers; p; p = p->next) {
		if (p->waits_for_trace && !is_written_to(s, p)) {
			p->waits_for_trace = false;
			answer_wait(s, p);
		}
	}
}

static uint32_t progress_for(const struct server *s, const struct peer *p)
{
	uint32_t sum = 0;

	for (const struct recording *r = s->recordings.first; r; r = r->next)
		if (!r->claim && concerns(r, p))
			sum += drain_progress(s->recordings.drain, r->doorbell);
	return sum;
}

bool requests_show_progress(struct server *s)
{
	bool some = recordings_show_progress(&s->recordings);

	for (struct peer *p = s->peers; p; p = p->next) {
		uint32_t progress = p->waits_for_trace ? progress_for(s, p) : 0;

		if (!p->waits_for_trace)
			continue;
		some = true;
		if (progress != p->wait_progress)
			connection_answer_error(&p->connection, &p->wait, -EINPROGRESS, "");
		p->wait_progress = progress;
	}
	return some;
}

static bool serve_wait(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	memcpy(&p->trace, m->text, sizeof(p->trace));
	p->wait = *m;
	p->waits_for_trace = true;
	p->wait_progress = progress_for(s, p);
	requests_answer_waits(s);
	return false;
}

static const struct {
	uint16_t type;
	bool (*serve)(struct server *s, struct peer *p, const struct sr_message *m, int fd);
} handlers[] = {
    {SR_MSG_HELLO, serve_hello},   {SR_MSG_AREA, serve_area},     {SR_MSG_FILE, serve_file},
    {SR_MSG_STATUS, serve_status}, {SR_MSG_WAIT_TRACE, serve_wait}, {SR_MSG_MEMORY, serve_memory},
    {SR_MSG_HELD, serve_held},
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
