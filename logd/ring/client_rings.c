/* SPDX-License-Identifier: BSD-2-Clause */
/* The rings that the daemon empties, and the areas in which they lie. */
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/ring/client.h"
#include "logd/ring/client_private.h"
#include "logd/ring/place.h"

/* How long a thread that begins waits between two looks for a free slot. */
#define SLOT_POLL_US 500

/* ---- areas ---- */

/* Not by malloc: the recorder leaves the program's heap unchanged. */
static struct sr_client_area *new_area(void)
{
	void *a = sr_place(sizeof(struct sr_client_area));

	if (!sr_sys_is_error(a))
		a = sr_sys_mmap(a, sizeof(struct sr_client_area), PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	return sr_sys_is_error(a) ? NULL : a;
}

static int request_area(struct sr_client *c, uint32_t number, size_t bytes, int *memfd)
{
	const struct sr_request_wait wait = sr_client_wait(c);
	struct sr_message request, answer;
	int ret = -ECONNRESET;

	sr_message_init(&request, SR_MSG_AREA);
	request.thread = number;
	request.value = bytes;
	while (sr_client_is_live(c)) {
		if (c->socket >= 0)
			ret = sr_request_while(c->socket, &request, -1, &answer, memfd, &wait);
		if (!sr_client_is_broken(ret))
			break;
		sr_client_disconnect(c);
		sr_client_await(c);
		if (c->socket < 0)
			ret = -ETIMEDOUT;
		if (c->socket < 0)
			break;
	}
	if (ret == -ETIMEDOUT && sr_client_is_live(c))
		sr_client_give_up(c, ETIMEDOUT);
	if (!sr_client_is_live(c))
		return -ENOTCONN;
	return ret ? ret : answer.error;
}

static int add_area(struct sr_client *c, size_t bytes)
{
	uint32_t number = atomic_load(&c->n_areas);
	struct sr_client_area *a;
	int memfd = -1, ret;

	if (number == SR_CLIENT_AREAS)
		return -EAGAIN;
	ret = request_area(c, number, bytes, &memfd);
	if (!ret && memfd < 0)
		ret = -EPROTO;
	if (ret)
		return ret;
	a = new_area();
	ret = a ? sr_area_attach(&a->area, memfd) : -ENOMEM;
	if (ret) {
		sr_sys_close(memfd);
		return ret;
	}
	/* In this order, for a child that is forked in between (sr_client_abandon). */
	c->areas[number] = a;
	atomic_store(&c->n_areas, number + 1);
	return 0;
}

void sr_client_count_unrecorded(struct sr_client *c)
{
	if (atomic_load(&c->n_areas))
		atomic_fetch_add(&c->areas[0]->area.shared->unrecorded, 1);
}

int sr_client_resume_areas(struct sr_client *c)
{
	const struct sr_request_wait wait = sr_client_wait(c);
	struct sr_message request, answer;
	int ret = 0;

	sr_message_init(&request, SR_MSG_AREA);
	request.flags = SR_MESSAGE_RESUME;
	for (uint32_t i = 0; !ret && i < c->n_areas; i++) {
		request.thread = i;
		ret = sr_request_while(c->socket, &request, c->areas[i]->area.fd, &answer, NULL,
				       &wait);
		if (!ret)
			ret = answer.error;
	}
	return ret;
}

void sr_client_stop_rings(struct sr_client *c, int error)
{
	for (uint32_t i = 0; i < c->n_areas; i++)
		for (uint32_t slot = 0; slot < c->areas[i]->area.slots; slot++)
			if (c->areas[i]->at[slot])
				sr_ring_stop(c->areas[i]->at[slot], error);
}

/* Each child that is forked does this: it touches no ring, as each would be a page fault. */
static void free_area(struct sr_client_area *a)
{
	for (uint32_t slot = 0; slot < a->area.slots; slot++)
		if (a->at[slot])
			sr_ring_unmap(a->at[slot], a->area.ring_bytes);
	sr_area_detach(&a->area);
	sr_sys_munmap(a, sizeof(*a));
}

void sr_client_free_areas(struct sr_client *c)
{
	for (uint32_t i = 0; i < c->n_areas; i++)
		free_area(c->areas[i]);
	c->n_areas = 0;
}

void sr_client_close_areas(struct sr_client *c)
{
	for (uint32_t i = 0; i < c->n_areas; i++) {
		if (c->areas[i]->area.fd >= 0)
			sr_sys_close(c->areas[i]->area.fd);
		c->areas[i]->area.fd = -1;
	}
}

int sr_client_own_fd_from(const struct sr_client *c, int from)
{
	int first = -1;

	for (int64_t i = -2; i < (int64_t)atomic_load(&c->n_areas); i++) {
		int fd = i == -2 ? c->socket : i == -1 ? c->hello_fd : c->areas[i]->area.fd;

		if (fd >= from && (first < 0 || fd < first))
			first = fd;
	}
	return first;
}

/* ---- slots ---- */

static uint32_t used_slots(const struct sr_client_area *a)
{
	const struct sr_area_shared *s = a->area.shared;

	return atomic_load(&s->opened) - atomic_load_explicit(&s->freed, memory_order_acquire);
}

/* A free slot, or -1.  They become free in some order of their use, so the search is short. */
static int64_t free_slot(struct sr_client_area *a)
{
	if (used_slots(a) >= a->area.slots)
		return -1;
	for (uint32_t i = 0; i < a->area.slots; i++) {
		uint32_t slot = (a->cursor + i) % a->area.slots;

		if (!sr_area_is_open(&a->area, slot)) {
			a->cursor = slot + 1;
			return slot;
		}
	}
	return -1;
}

/*
 * The area with a free slot, or NULL.  *backlog: most slots in use are those of threads that have
 * ended, which the daemon has not written yet.
 */
static struct sr_client_area *find_slot(struct sr_client *c, size_t bytes, int64_t *slot,
					bool *backlog)
{
	uint32_t used = 0;

	for (uint32_t i = 0; i < c->n_areas; i++) {
		struct sr_client_area *a = c->areas[i];

		used += used_slots(a);
		if (a->area.ring_bytes == bytes && (*slot = free_slot(a)) >= 0)
			return a;
	}
	*backlog = used > SR_AREA_SLOTS / 2 && used / 2 > atomic_load(&c->n_rings);
	return NULL;
}

/* Without a daemon the next one gets the area with all its rings. */
static void wait_for_slot(struct sr_client *c)
{
	const struct timespec pause = {.tv_nsec = SLOT_POLL_US * 1000};

	if (!sr_client_goes_on(c, false))
		sr_client_give_up(c, c->socket < 0 ? ENOTCONN : ETIMEDOUT);
	else if (sr_client_has_hung_up(c) || sr_client_is_silent(c))
		sr_client_reconnect(c);
	sr_sys_nanosleep(&pause);
}

static int open_ring_locked(struct sr_client *c, uint32_t thread, size_t bytes,
			    struct sr_ring *ring)
{
	struct sr_client_area *a = NULL;
	bool backlog = false;
	int64_t slot = -1;
	int ret = 0;

	while (sr_client_is_live(c) && !ret && !(a = find_slot(c, bytes, &slot, &backlog))) {
		if (backlog)
			wait_for_slot(c);
		else
			ret = add_area(c, bytes);
	}
	if (!ret && !a)
		ret = -ENOTCONN;
	if (!ret)
		ret = sr_area_ring(&a->area, (uint32_t)slot, SR_RING_PRODUCER, a->at[slot], ring);
	if (ret)
		return ret;
	sr_area_open_slot(&a->area, (uint32_t)slot, thread, ring);
	a->at[slot] = ring->shared;
	atomic_fetch_add(&c->n_rings, 1);
	return 0;
}

/* A ring that waits for room notices a dead daemon. */
static void check_daemon(void *client)
{
	sr_client_check(client);
}

int sr_client_open_ring(struct sr_client *c, uint32_t thread, size_t bytes, struct sr_ring *ring)
{
	int ret;

	if (!sr_client_lock(c))
		return -EDEADLK;
	ret = open_ring_locked(c, thread, bytes, ring);
	if (!ret) {
		sr_ring_set_doorbell(ring, &c->doorbell->bell);
		sr_ring_set_wait_hook(ring, check_daemon, c);
	}
	sr_client_unlock(c);
	return ret;
}

void sr_client_close_ring(struct sr_client *c, struct sr_ring *ring)
{
	sr_ring_close(ring);
	ring->shared = NULL;
	atomic_fetch_sub(&c->n_rings, 1);
}

/* ---- waiting until all is written ---- */

void sr_client_flush(struct sr_client *c)
{
	for (uint32_t i = 0; i < c->n_areas; i++) {
		struct sr_client_area *a = c->areas[i];

		for (uint32_t slot = 0; slot < a->area.slots; slot++)
			if (a->at[slot] && sr_area_is_open(&a->area, slot))
				atomic_store(&a->at[slot]->flush_to, atomic_load(&a->at[slot]->head));
	}
	if (c->doorbell) {
		atomic_fetch_add(&c->doorbell->bell, 1);
		sr_sys_futex((uint32_t *)&c->doorbell->bell, FUTEX_WAKE, INT32_MAX, NULL);
	}
}

bool sr_client_is_written(const struct sr_client_area *a, uint32_t slot)
{
	const struct sr_ring_shared *s = a->at[slot];

	if (!s || !sr_area_is_open(&a->area, slot))
		return true;
	/* A closed ring has its last mark when its slot is free. */
	return !atomic_load(&s->closed) &&
	       (atomic_load(&s->stopped) || atomic_load(&s->tail) >= atomic_load(&s->flush_to));
}
