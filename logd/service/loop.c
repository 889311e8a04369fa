/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/service/loop.h"

#include <errno.h>
#include <stddef.h>
#include <sys/epoll.h>

int loop_open(struct loop *l)
{
	l->fd = epoll_create1(EPOLL_CLOEXEC);
	return l->fd < 0 ? -errno : 0;
}

int loop_watch(struct loop *l, struct source *source)
{
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = source};

	return epoll_ctl(l->fd, EPOLL_CTL_ADD, source->fd, &e) ? -errno : 0;
}

void loop_watch_writes(struct loop *l, struct source *source, bool writes)
{
	struct epoll_event e = {.events = EPOLLIN | (writes ? EPOLLOUT : 0), .data.ptr = source};

	epoll_ctl(l->fd, EPOLL_CTL_MOD, source->fd, &e);
}

void loop_unwatch(struct loop *l, struct source *source)
{
	epoll_ctl(l->fd, EPOLL_CTL_DEL, source->fd, NULL);
}

void loop_step(struct loop *l, int timeout_ms)
{
	struct epoll_event e;
	struct source *source;

	if (epoll_wait(l->fd, &e, 1, timeout_ms) != 1)
		return;
	source = e.data.ptr;
	source->ready(source->owner, source);
}
