/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/ring/client.h"

#include <linux/futex.h>
#include <string.h>

#include "logd/base/page.h"
#include "logd/ring/client_private.h"

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
	if (c->rings)
		sr_sys_munmap(c->rings, c->room_rings * sizeof(*c->rings));
	memset(c, 0, sizeof(*c));
}

int sr_client_connect(struct sr_client *c, const char *socket_path, const struct sr_hello *hello,
		      char *error, size_t error_size)
{
	int ret;

	memset(c, 0, sizeof(*c));
	c->state = SR_CLIENT_LIVE;
	c->socket = c->hello_fd = -1;
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

static int finish_locked(struct sr_client *c)
{
	const struct sr_request_wait wait = sr_client_wait(c);
	struct sr_message request, answer;
	int ret = -ENOTCONN;

	sr_message_init(&request, SR_MSG_FINISH);
	while (sr_client_is_live(c)) {
		/* Rings that no daemon empties may hold records, which need one more daemon. */
		if (sr_client_has_hung_up(c)) {
			sr_client_disconnect(c);
			if (c->n_rings)
				sr_client_await(c);
		}
		if (c->socket < 0)
			return -ENOTCONN;
		ret = sr_request_while(c->socket, &request, -1, &answer, NULL, &wait);
		if (!sr_client_is_broken(ret))
			break;
		sr_client_disconnect(c);
	}
	/* Not asked again: the daemon may answer this much later. */
	if (ret == -ETIMEDOUT)
		sr_client_disconnect(c);
	return ret ? ret : answer.error;
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

void sr_client_abandon(struct sr_client *c)
{
	/* The lock's holder may be a thread that the child does not have: no locking. */
	for (uint32_t i = 0; i < c->n_rings; i++)
		sr_ring_detach(c->rings[i].ring);
	forget(c);
}
