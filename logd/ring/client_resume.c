/* SPDX-License-Identifier: BSD-2-Clause */
/* Noticing a daemon that is gone, and going on with the next one.  The lock is held. */
#include "logd/ring/client.h"
#include "logd/ring/client_private.h"

bool sr_client_has_hung_up(const struct sr_client *c)
{
	struct pollfd p = {.fd = c->socket, .events = POLLIN};
	struct timespec now = {0};

	/* The daemon sends answers only, so anything to read is the end of file. */
	return c->socket < 0 || sr_sys_ppoll(&p, 1, &now) > 0;
}

static void give_up(struct sr_client *c, int error)
{
	c->state = SR_CLIENT_GIVEN_UP;
	/* First: whoever finds a ring stopped says less. */
	if (c->give_up_hook)
		c->give_up_hook(error);
	for (uint32_t i = 0; i < c->n_rings; i++)
		sr_ring_stop(c->rings[i].ring, error);
}

static int resume(struct sr_client *c)
{
	struct sr_message answer;
	int ret;

	c->hello.flags |= SR_MESSAGE_RESUME;
	ret = sr_client_greet(c, &answer, RESUME_MS);
	for (uint32_t i = 0; !ret && i < c->n_rings; i++) {
		int err = sr_client_hand_over(c, &c->rings[i], SR_MESSAGE_RESUME, RESUME_MS);

		if (sr_client_is_broken(err) || err == -ETIMEDOUT)
			ret = err;
		else if (err)
			sr_ring_stop(c->rings[i].ring, -err);
	}
	return ret;
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
	if (c->socket >= 0)
		sr_client_disconnect(c);
	err = resume(c);
	if (!err) {
		c->emptied_at = sr_sys_now_ms();
		return;
	}
	sr_client_disconnect(c);
	/* A silent daemon is not asked again soon: other threads wait for the lock meanwhile. */
	if (err == -ETIMEDOUT)
		c->next_try = sr_sys_now_ms() + SILENT_MS;
	/* If a daemon refuses, or none comes in time, the program goes on unrecorded. */
	if (!is_worth_another_try(err))
		give_up(c, -err);
	else if (c->stall_timeout_ms >= 0 && now - c->lost_since > c->stall_timeout_ms)
		give_up(c, ENOTCONN);
}

/*
 * A ring waits for room.  Has the daemon emptied no ring for SILENT_MS?  It may be slow (a disk),
 * or not run any more, which a new connection shows.
 */
static bool is_silent(struct sr_client *c)
{
	int64_t now = sr_sys_now_ms();
	uint64_t emptied = 0;

	for (uint32_t i = 0; i < c->n_rings; i++)
		emptied += sr_ring_released(c->rings[i].ring);
	/* If the last check is long ago, no ring has waited since. */
	if (emptied != c->emptied || now - c->looked_at > SILENT_MS) {
		c->emptied = emptied;
		c->emptied_at = now;
	}
	c->looked_at = now;
	return now - c->emptied_at > SILENT_MS;
}

void sr_client_check(struct sr_client *c)
{
	if (!sr_client_try_lock(c)) /* another thread does this, or this thread was interrupted */
		return;
	if (sr_client_is_live(c) && (sr_client_has_hung_up(c) || is_silent(c)))
		sr_client_reconnect(c);
	sr_client_unlock(c);
}

/* Rings that no daemon empties may hold records, which need one more daemon. */
void sr_client_await(struct sr_client *c, int64_t deadline)
{
	while (sr_client_is_live(c) && c->socket < 0 && c->n_rings && sr_sys_now_ms() < deadline) {
		struct timespec pause = sr_sys_ms(RETRY_MS);

		sr_client_reconnect(c);
		if (c->socket < 0)
			sr_sys_nanosleep(&pause);
	}
}
