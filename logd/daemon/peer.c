/* SPDX-License-Identifier: BSD-2-Clause */
/* The answering side of protocol.h. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/nodes/directory.h"
#include "logd/writer/drain.h"
#include "logd/base/log.h"
#include "logd/nodes/node.h"
#include "logd/ring/packet.h"
#include "logd/daemon/peer.h"
#include "logd/base/rawsys.h"
#include "logd/daemon/server.h"

#define LISTENER_REST_MS 100
#include "logd/ring/request.h"

/* ---- packets ---- */

/* A peer that does not listen any more is noticed by the next receive. */
void peer_answer(struct peer *p, const struct sr_message *request, struct sr_message *m, int fd)
{
	m->sequence = request->sequence;
	(void)!sr_packet_send(p->source.fd, m, fd);
}

void peer_answer_error(struct peer *p, const struct sr_message *request, int error,
		       const char *text)
{
	struct sr_message m;

	sr_message_init(&m, request->type);
	m.error = error;
	if (error)
		snprintf(m.text, sizeof(m.text), "%s", text[0] ? text : strerror(-error));
	peer_answer(p, request, &m, -1);
}

/* 1: a request; 0: none now; -errno: the peer is gone, or talks another language. */
static int receive(struct peer *p, struct sr_message *m, int *fd)
{
	int ret = sr_packet_receive(p->source.fd, m, fd);

	if (ret == -EAGAIN)
		return 0;
	if (ret == -EPROTO) {
		/* Its first fields are the same in every version: it can at least be told. */
		m->type = 0;
		peer_answer_error(p, m, -EPROTO,
				  "this sreplay-logd speaks another version of the protocol");
	}
	return ret ? ret : 1;
}

/* ---- requests ---- */

static void serve_hello(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	struct sr_message reply;
	char error[sizeof(m->text)] = "";
	int err = recording_hello(s, p, m, fd, error, sizeof(error));

	if (err) {
		log_line("process %d refused: %s", (int)p->pid, error[0] ? error : strerror(-err));
		peer_answer_error(p, m, err, error);
		return;
	}
	sr_message_init(&reply, SR_MSG_HELLO);
	peer_answer(p, m, &reply, drain_doorbell_fd(s->drain, p->recording->doorbell));
}

/* True: fd has a new owner. */
static bool serve_ring(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	char error[sizeof(m->text)] = "";
	int err = -ENOTCONN;

	if (p->recording && fd >= 0)
		err = recording_add_ring(s, p->recording, m, fd, error, sizeof(error));
	peer_answer_error(p, m, err, error);
	return !err;
}

static void serve_file(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	int err = -ENOTCONN;

	if (p->recording && fd >= 0)
		err = recording_add_file(s, p->recording, m, fd);
	peer_answer_error(p, m, err, "");
}

static void serve_finish(struct server *s, struct peer *p, const struct sr_message *m)
{
	if (!p->recording) {
		peer_answer_error(p, m, -ENOTCONN, "");
		return;
	}
	p->recording->finish = *m;
	recording_finish(s, p->recording);
	recordings_progress(s);
}

void peer_answer_finish(struct recording *r)
{
	r->finishing = false;
	if (r->peer)
		peer_answer_error(r->peer, &r->finish, 0, "");
}

static void serve_status(struct server *s, struct peer *p, const struct sr_message *m)
{
	struct sr_message reply;
	int fd = report_make(s);

	if (fd < 0) {
		peer_answer_error(p, m, fd, "");
		return;
	}
	sr_message_init(&reply, SR_MSG_STATUS);
	peer_answer(p, m, &reply, fd);
	close(fd);
}

/* Is the trace that p waits for written to, by one of the processes that it waits for? */
static bool is_written_to(const struct server *s, const struct peer *p)
{
	static const uint8_t any[SR_SESSION_BYTES];
	const uint8_t *session = p->wait.session;

	for (const struct recording *r = s->recordings; r; r = r->next) {
		if (r->trace_device == p->trace_device && r->trace_inode == p->trace_inode &&
		    (!memcmp(session, any, sizeof(any)) ||
		     !memcmp(session, r->session, sizeof(any))))
			return true;
	}
	return false;
}

void peers_answer_waits(struct server *s)
{
	for (struct peer *p = s->peers; p; p = p->next) {
		if (p->waits_for_trace && !is_written_to(s, p)) {
			p->waits_for_trace = false;
			peer_answer_error(p, &p->wait, 0, "");
		}
	}
}

static void serve_wait(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	char dir[PATH_MAX] = "";
	ssize_t n = fd < 0 ? -1 : pread(fd, dir, sizeof(dir) - 1, 0);
	struct stat st;

	if (n <= 0 || stat(dir, &st)) {
		peer_answer_error(p, m, n <= 0 ? -EPROTO : -errno, "");
		return;
	}
	p->trace_device = st.st_dev;
	p->trace_inode = st.st_ino;
	p->wait = *m;
	p->waits_for_trace = true;
	peers_answer_waits(s);
}

static void serve_request(struct server *s, struct peer *p, const struct sr_message *m, int fd)
{
	bool taken = false;

	if (p->stranger) {
		peer_answer_error(p, m, -EACCES, "this sreplay-logd serves another user");
		if (fd >= 0)
			close(fd);
		return;
	}
	switch (m->type) {
	case SR_MSG_HELLO:
		serve_hello(s, p, m, fd);
		break;
	case SR_MSG_RING:
		taken = serve_ring(s, p, m, fd);
		break;
	case SR_MSG_FILE:
		serve_file(s, p, m, fd);
		break;
	case SR_MSG_FINISH:
		serve_finish(s, p, m);
		break;
	case SR_MSG_STATUS:
		serve_status(s, p, m);
		break;
	case SR_MSG_WAIT_TRACE:
		serve_wait(s, p, m, fd);
		break;
	default:
		if (!directory_serve(s, p, m, fd))
			peer_answer_error(p, m, -EPROTO,
					  "not a request that this sreplay-logd knows");
	}
	if (fd >= 0 && !taken)
		close(fd);
}

void peer_serve(struct server *s, struct peer *p)
{
	struct sr_message m;
	int fd, ret;

	while ((ret = receive(p, &m, &fd)) > 0)
		serve_request(s, p, &m, fd);
	if (ret < 0) {
		if (fd >= 0)
			close(fd);
		peer_free(s, p);
	}
}

/* ---- coming and going ---- */

static void peer_ready(struct server *s, struct source *source)
{
	peer_serve(s, (struct peer *)source);
}

void peer_free(struct server *s, struct peer *p)
{
	struct peer **at = &s->peers;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	if (p->recording)
		p->recording->peer = NULL;
	node_forget_peer(s, p);
	server_unwatch(s, &p->source);
	close(p->source.fd);
	free(p);
}

/* Whose end is it?  Only our own user's processes may speak. */
static int check_credentials(int fd, pid_t *pid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		return -errno;
	*pid = peer.pid;
	if (peer.uid == geteuid())
		return 0;
	log_line("a process (%d) of user %u refused: this daemon serves user %u", (int)peer.pid,
		 peer.uid, geteuid());
	return -EACCES;
}

/* What passes when others let go of something: whoever waits to be accepted stays in the queue. */
static bool is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* epoll would tell of the queue again at once, and so on for as long as the shortage lasts. */
static void rest_listener(struct server *s, int error)
{
	if (!s->listener_complained)
		log_line("no new processes can be recorded for now: %s", strerror(error));
	s->listener_complained = true;
	server_unwatch(s, &s->listener);
	s->listener_rests_until = sr_sys_now_ms() + LISTENER_REST_MS;
}

int peers_wake_listener(struct server *s)
{
	int64_t left = s->listener_rests_until - sr_sys_now_ms();

	if (!s->listener_rests_until)
		return -1;
	if (left > 0)
		return (int)left;
	if (server_watch(s, &s->listener))
		return LISTENER_REST_MS;
	s->listener_rests_until = 0;
	return -1;
}

void peer_accept(struct server *s, struct source *listener)
{
	int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	bool stranger;
	struct peer *p;
	pid_t pid = 0;

	if (fd < 0) {
		if (is_shortage(errno))
			rest_listener(s, errno);
		return;
	}
	s->listener_complained = false;
	stranger = check_credentials(fd, &pid) != 0;
	p = calloc(1, sizeof(*p));
	if (p) {
		p->stranger = stranger;
		p->source = (struct source){.ready = peer_ready, .fd = fd};
		p->pid = pid;
	}
	if (!p || server_watch(s, &p->source)) {
		free(p);
		close(fd);
		return;
	}
	p->next = s->peers;
	s->peers = p;
}
