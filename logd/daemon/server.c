/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/daemon/server.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>

int server_watch(struct server *s, struct source *source)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = source};

	return epoll_ctl(s->epoll_fd, EPOLL_CTL_ADD, source->fd, &e) ? -errno : 0;
}

void server_unwatch(struct server *s, struct source *source)
{
	epoll_ctl(s->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
}
