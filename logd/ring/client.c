/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/client.h"

#include <linux/futex.h>
#include <string.h>

#include "logd/base/page.h"
#include "logd/ring/client_private.h"

/* How often a process that waits until all is written looks. */
#define WRITTEN_POLL_US 200

bool sr_client_lock(struct sr_client *c)
{
	uint32_t me = (uint32_t)sr_sys_gettid(), holder = 0;

	while (!atomic_compare_exchange_strong(&c->lock, &holder, me)) {
		if (holder == me)
			return false;
		sr_sys_futex((uint32_t *)&c->lock, FUTEX_WAIT_PRIVATE, holder, NULL);
		holder = 0;
	}
	return true;
}

bool sr_client_try_lock(struct sr_client *c)
{
	uint32_t free = 0;

	return atomic_compare_exchange_strong(&c->lock, &free, (uint32_t)sr_sys_gettid());
}

void sr_client_unlock(struct sr_client *c)
{
	atomic_store(&c->lock, 0);
	sr_sys_futex((uint32_t *)&c->lock, FUTEX_WAKE_PRIVATE, 1, NULL);
}

void sr_client_disconnect(struct sr_client *c)
{
	if (c->socket >= 0)
		sr_sys_close(c->socket);
	c->socket = -1;
}

static void forget(struct sr_client *c)
{
	/* In zeroed storage, the descriptor 0 is the program's. */
	if (c->state == SR_CLIENT_NONE)
		return;
	if (c->socket >= 0)
		sr_sys_close(c->socket);
	if (c->hello_fd >= 0)
		sr_sys_close(c->hello_fd);
	if (c->doorbell)
		sr_sys_munmap(c->doorbell, PAGE);
	sr_client_free_areas(c);
	memset(c, 0, sizeof(*c));
}

int sr_client_connect(struct sr_client *c, const char *socket_path, const struct sr_hello *hello,
		      char *error, size_t error_size)
{
	int ret;

	memset(c, 0, sizeof(*c));
	c->state = SR_CLIENT_LIVE;
	c->socket = c->hello_fd = -1;
	c->given = hello->connection;
	c->stall_timeout_ms = SR_CLIENT_STALL_TIMEOUT_MS;
	ret = strlen(socket_path) < sizeof(c->path) ? 0 : -ENAMETOOLONG;
	strncpy(c->path, socket_path, sizeof(c->path) - 1);
	if (!ret)
		ret = sr_client_make_hello(c, hello);
	ret = sr_client_introduce(c, socket_path, ret, error, error_size);
	if (ret)
		forget(c);
	return ret;
}

void sr_client_set_stall_timeout(struct sr_client *c, int64_t ms)
{
	c->stall_timeout_ms = ms;
}

void sr_client_set_hooks(struct sr_client *c, const struct sr_client_hooks *hooks)
{
	c->hooks = hooks;
}

/* 0: it is written; or -errno. */
static int await_slot(struct sr_client *c, const struct sr_client_area *a, uint32_t slot)
{
	const struct timespec pause = {.tv_nsec = WRITTEN_POLL_US * 1000};

	while (!sr_client_is_written(a, slot)) {
		if (!sr_client_is_live(c))
			return -ENOTCONN;
		if (!sr_client_goes_on(c, false))
			return -ETIMEDOUT;
		/* Rings that no daemon empties hold records, which need one more daemon. */
		if (sr_client_has_hung_up(c) || sr_client_is_silent(c))
			sr_client_reconnect(c);
		sr_sys_nanosleep(&pause);
	}
	return 0;
}

static int finish_locked(struct sr_client *c)
{
	int ret = sr_client_is_live(c) ? 0 : -ENOTCONN;

	sr_client_flush(c);
	for (uint32_t i = 0; !ret && i < c->n_areas; i++)
		for (uint32_t slot = 0; !ret && slot < c->areas[i]->area.slots; slot++)
			ret = await_slot(c, c->areas[i], slot);
	return ret;
}

int sr_client_finish(struct sr_client *c, int timeout_ms)
{
	int ret;

	if (!sr_client_lock(c))
		return -EDEADLK;
	c->deadline = timeout_ms < 0 ? 0 : sr_sys_now_ms() + timeout_ms;
	ret = finish_locked(c);
	c->deadline = 0;
	sr_client_unlock(c);
	return ret;
}

void sr_client_stop(struct sr_client *c, int error)
{
	if (!sr_client_lock(c))
		return;
	sr_client_stop_rings(c, error);
	sr_client_unlock(c);
}

void sr_client_leave(struct sr_client *c)
{
	if (!sr_client_lock(c))
		return;
	if (sr_client_is_live(c))
		finish_locked(c);
	if (sr_client_is_live(c))
		c->state = SR_CLIENT_GIVEN_UP;
	sr_client_disconnect(c);
	if (c->hello_fd >= 0)
		sr_sys_close(c->hello_fd);
	c->hello_fd = -1;
	sr_client_close_areas(c);
	sr_client_unlock(c);
}

void sr_client_abandon(struct sr_client *c)
{
	/* The lock's holder may be a thread that the child does not have: no locking. */
	forget(c);
}
