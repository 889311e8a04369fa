/* SPDX-License-Identifier: BSD-2-Clause */
/* The rings that the daemon empties. */
#include <string.h>
#include <sys/mman.h>

#include "logd/ring/client.h"
#include "logd/ring/client_private.h"
#include "logd/ring/place.h"

#define EMPTY_POLL_US 200
#define FIRST_RINGS   256 /* a page of them */

int sr_client_hand_over(struct sr_client *c, const struct sr_client_ring *entry, uint32_t flags)
{
	const struct sr_request_wait wait = sr_client_wait(c);
	struct sr_message message;

	sr_message_init(&message, SR_MSG_RING);
	message.thread = entry->thread;
	message.flags = flags;
	sr_ring_set_doorbell(entry->ring, &c->doorbell->bell);
	return sr_request_send(c->socket, &message, entry->ring->fd, &wait);
}

/* Not by malloc: the recorder leaves the program's heap unchanged. */
static int grow_table(struct sr_client *c)
{
	uint32_t room = c->room_rings ? 2 * c->room_rings : FIRST_RINGS;
	struct sr_client_ring *rings = sr_place(room * sizeof(*rings));

	if (!sr_sys_is_error(rings))
		rings = sr_sys_mmap(rings, room * sizeof(*rings), PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	if (sr_sys_is_error(rings))
		return (int)(intptr_t)rings;
	if (c->rings) {
		memcpy(rings, c->rings, c->n_rings * sizeof(*rings));
		sr_sys_munmap(c->rings, c->room_rings * sizeof(*rings));
	}
	c->rings = rings;
	c->room_rings = room;
	return 0;
}

/* A ring that waits for room notices a dead daemon. */
static void check_daemon(void *client)
{
	sr_client_check(client);
}

static int add_ring_locked(struct sr_client *c, uint32_t thread, struct sr_ring *ring)
{
	struct sr_client_ring entry = {ring, thread};
	int ret = 0;

	if (!sr_client_is_live(c))
		return -ENOTCONN;
	if (c->n_rings == c->room_rings)
		ret = grow_table(c);
	if (ret)
		return ret;
	/* Without a daemon the ring counts as added: the next daemon gets it with all others. */
	if (c->socket >= 0 && (ret = sr_client_hand_over(c, &entry, 0))) {
		sr_client_disconnect(c);
		if (ret == -ETIMEDOUT) {
			sr_client_give_up(c, ETIMEDOUT);
			return -ENOTCONN;
		}
	}
	sr_ring_set_wait_hook(ring, check_daemon, c);
	/* In this order, for a child that is forked in between (sr_client_abandon). */
	c->rings[c->n_rings] = entry;
	atomic_signal_fence(memory_order_release);
	c->n_rings++;
	return 0;
}

int sr_client_add_ring(struct sr_client *c, uint32_t thread, struct sr_ring *ring)
{
	int ret;

	if (!sr_client_lock(c))
		return -EDEADLK;
	ret = add_ring_locked(c, thread, ring);
	sr_client_unlock(c);
	return ret;
}

/* Called with the lock held. */
static void forget_ring(struct sr_client *c, const struct sr_ring *ring)
{
	for (uint32_t i = 0; i < c->n_rings; i++) {
		if (c->rings[i].ring == ring) {
			c->rings[i] = c->rings[--c->n_rings];
			return;
		}
	}
}

/* What the daemon has not released is not written, and would be lost if the daemon died now. */
static void wait_until_empty(struct sr_client *c, const struct sr_ring *ring)
{
	const struct timespec pause = {.tv_nsec = EMPTY_POLL_US * 1000};

	while (sr_client_is_live(c) && !sr_ring_stopped(ring) && !sr_ring_empty(ring)) {
		sr_client_check(c);
		sr_sys_nanosleep(&pause);
	}
}

void sr_client_remove_ring(struct sr_client *c, struct sr_ring *ring)
{
	sr_ring_close(ring);
	wait_until_empty(c, ring);
	if (!sr_client_lock(c))
		return;
	forget_ring(c, ring);
	sr_client_unlock(c);
	sr_ring_detach(ring);
}
