/* SPDX-License-Identifier: BSD-2-Clause */
/* Going on with the next daemon when one is gone.  The lock is held. */
#include "logd/ring/client.h"
#include "logd/ring/client_private.h"

bool sr_client_has_hung_up(const struct sr_client *c)
{
	struct pollfd p = {.fd = c->socket, .events = POLLIN};
	struct timespec now = {0};

	/* The daemon sends answers only, so anything to read is the end of file. */
	return c->socket < 0 || sr_sys_ppoll(&p, 1, &now) > 0;
}

void sr_client_give_up(struct sr_client *c, int error)
{
	c->state = SR_CLIENT_GIVEN_UP;
	/* First: whoever finds a ring stopped says less. */
	if (c->hooks)
		c->hooks->gives_up(error);
	sr_client_stop_rings(c, error);
}

static int resume(struct sr_client *c)
{
	struct sr_message answer;
	int ret;

	c->hello.flags |= SR_MESSAGE_RESUME;
	ret = sr_client_greet(c, &answer);
	return ret ? ret : sr_client_resume_areas(c);
}

static bool is_worth_another_try(int err)
{
	return sr_client_is_broken(err) || err == -ENOENT || err == -ECONNREFUSED ||
	       err == -ETIMEDOUT || err == -EAGAIN || err == -EMFILE || err == -ENFILE;
}

void sr_client_reconnect(struct sr_client *c)
{
	int64_t now = sr_sys_now_ms();
	int err;

	if (now < c->next_try)
		return;
	c->next_try = now + RETRY_MS;
	sr_client_disconnect(c);
	err = resume(c);
	if (!err)
		return;
	sr_client_disconnect(c);
	/* If a daemon refuses, the program goes on unrecorded. */
	if (!is_worth_another_try(err))
		sr_client_give_up(c, -err);
}

void sr_client_check(struct sr_client *c)
{
	if (!sr_client_try_lock(c)) /* another thread does this, or this thread was interrupted */
		return;
	if (sr_client_is_live(c) && !sr_client_goes_on(c, false))
		sr_client_give_up(c, c->socket < 0 ? ENOTCONN : ETIMEDOUT);
	else if (sr_client_is_live(c) && (sr_client_has_hung_up(c) || sr_client_is_silent(c)))
		sr_client_reconnect(c);
	sr_client_unlock(c);
}

void sr_client_await(struct sr_client *c)
{
	while (sr_client_is_live(c) && c->socket < 0 && sr_client_goes_on(c, false)) {
		struct timespec pause = sr_sys_ms(RETRY_MS);

		sr_client_reconnect(c);
		if (c->socket < 0)
			sr_sys_nanosleep(&pause);
	}
}
