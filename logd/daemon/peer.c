/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/daemon/requests.h"
#include "logd/nodes/directory.h"
#include "logd/ring/packet.h"
#include "logd/service/log.h"

#define LISTENER_REST_MS 100

/* 1: a request; 0: none now; -errno: the peer is gone, or speaks no version of ours. */
static int receive(struct connection *c, struct sr_message *m, int *fd)
{
	int ret = sr_packet_receive(c->source.fd, m, fd);

	if (ret == -EAGAIN)
		return 0;
	if (ret == -EPROTO) {
		/* The first fields are the same in every version, so this answer arrives. */
		m->type = 0;
		connection_answer_error(c, m, -EPROTO,
					"this sreplay-logd speaks another version of the protocol");
	}
	return ret ? ret : 1;
}

void peer_serve(struct server *s, struct connection *c)
{
	struct peer *p = (struct peer *)c;
	struct sr_message m;
	int fd, ret;

	while ((ret = receive(c, &m, &fd)) > 0)
		request_serve(s, p, &m, fd);
	if (ret < 0) {
		if (fd >= 0)
			close(fd);
		peer_free(s, p);
	}
}

static void peer_ready(void *owner, struct source *source)
{
	peer_serve(owner, (struct connection *)source);
}

void peer_free(struct server *s, struct peer *p)
{
	struct peer **at = &s->peers;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	recordings_forget(&s->recordings, &p->connection);
	directory_forget(s->directory, &p->connection);
	loop_unwatch(&s->loop, &p->connection.source);
	close(p->connection.source.fd);
	free(p);
}

/* -EACCES: another user's process. */
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

/* A shortage that ends by itself; until then connections stay in the queue. */
static bool is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* Without the rest, epoll would report the queue again and again while the shortage lasts. */
static void rest_listener(struct server *s, int error)
{
	if (!s->listener_complained)
		log_line("no new processes can be recorded for now: %s", strerror(error));
	s->listener_complained = true;
	loop_unwatch(&s->loop, &s->listener);
	s->listener_rests_until = sr_sys_now_ms() + LISTENER_REST_MS;
}

int peers_wake_listener(struct server *s)
{
	int64_t left = s->listener_rests_until - sr_sys_now_ms();

	if (!s->listener_rests_until)
		return -1;
	if (left > 0)
		return (int)left;
	if (loop_watch(&s->loop, &s->listener))
		return LISTENER_REST_MS;
	s->listener_rests_until = 0;
	return -1;
}

static struct peer *new_peer(struct server *s, int fd)
{
	struct peer *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->connection.source = (struct source){.ready = peer_ready, .owner = s, .fd = fd};
	p->stranger = check_credentials(fd, &p->connection.pid) != 0;
	if (loop_watch(&s->loop, &p->connection.source)) {
		free(p);
		return NULL;
	}
	p->next = s->peers;
	s->peers = p;
	return p;
}

void peer_accept(void *owner, struct source *listener)
{
	struct server *s = owner;
	int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (is_shortage(errno))
			rest_listener(s, errno);
		return;
	}
	s->listener_complained = false;
	if (!new_peer(s, fd))
		close(fd);
}
