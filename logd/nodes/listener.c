/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/nodes/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "logd/base/rawsys.h"
#include "logd/nodes/address.h"
#include "logd/service/handover.h"
#include "logd/service/log.h"

/* How long connections stay in the queue when there are no descriptors. */
#define REST_MS 100

/* A shortage that ends by itself. */
static bool is_shortage(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

/* Without the rest, epoll would report the queue again and again while the shortage lasts. */
static void rest(struct listener *l, int error)
{
	if (!l->has_complained)
		log_line("no other nodes can connect for now: %s", strerror(error));
	l->has_complained = true;
	loop_unwatch(l->loop, &l->source);
	l->rests_until = sr_sys_now_ms() + REST_MS;
	l->rests(l->owner);
}

static void wake(struct listener *l)
{
	if (sr_sys_now_ms() >= l->rests_until && !loop_watch(l->loop, &l->source))
		l->rests_until = 0;
}

static void accept_one(void *owner, struct source *source)
{
	struct listener *l = owner;
	struct sockaddr_storage a = {0};
	socklen_t size = sizeof(a);
	int fd = accept4(source->fd, (struct sockaddr *)&a, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (is_shortage(errno))
			rest(l, errno);
		return;
	}
	l->has_complained = false;
	l->accepted(l->owner, fd, &a);
}

/* A listening socket, or -errno; name: the address as text. */
static int open_socket(char *name, size_t size)
{
	struct sockaddr_storage a = *node_listen_address();
	int fd, yes = 1, no = 0;

	if (!a.ss_family)
		a.ss_family = AF_INET6; /* any address, of both kinds */
	*node_address_port(&a) = node_common_port();
	node_address_print(&a, name, size);
	fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	if (!node_listen_address()->ss_family)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof(no));
	if (bind(fd, (struct sockaddr *)&a, sizeof(a)) || listen(fd, SOMAXCONN)) {
		int err = -errno;

		close(fd);
		return err;
	}
	return fd;
}

void listener_init(struct listener *l, struct loop *loop,
		   void (*accepted)(void *owner, int fd, const struct sockaddr_storage *from),
		   void (*rests)(void *owner), void *owner)
{
	*l = (struct listener){
	    .source = {.ready = accept_one, .owner = l, .fd = -1},
	    .loop = loop,
	    .accepted = accepted,
	    .rests = rests,
	    .owner = owner,
	};
}

bool listener_is_trying(const struct listener *l)
{
	return l->try_until || l->rests_until;
}

void listener_try(struct listener *l)
{
	char name[INET6_ADDRSTRLEN];
	int fd;

	if (l->rests_until) {
		wake(l);
		return;
	}
	fd = open_socket(name, sizeof(name));

	if (fd == -EADDRINUSE && sr_sys_now_ms() < l->try_until)
		return;
	l->try_until = 0;
	if (fd < 0) {
		log_line("cannot listen on %s port %d for the job's other nodes: %s", name,
			 ntohs(node_common_port()), strerror(-fd));
		return;
	}
	l->source.fd = fd;
	loop_watch(l->loop, &l->source);
}

void listener_begin(struct listener *l)
{
	if (l->source.fd >= 0 || listener_is_trying(l))
		return;
	l->try_until = sr_sys_now_ms() + HANDOVER_MS;
	listener_try(l);
}

void listener_close(struct listener *l)
{
	if (l->source.fd >= 0)
		close(l->source.fd);
}
