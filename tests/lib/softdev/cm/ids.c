/* SPDX-License-Identifier: BSD-2-Clause */
/* ids.c: identifiers, their events, timers and multicast groups. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>

#include <infiniband/verbs.h>

#include "internal.h"

/* The lowest free one is the next: all lists end at their high-water marks. */
static struct cm_id ids[CM_MAX_IDS];
static struct cm_group groups[CM_MAX_GROUPS];
static struct cm_event events[CM_MAX_EVENTS];
static struct cm_event *free_events;
static uint32_t ids_end, groups_end, events_end;

uint64_t cm_now(void)
{
	struct timespec now;

	cm_sys(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

struct cm_id *cm_id_make(struct cm_channel *channel, uint16_t ps, uint8_t qp_type)
{
	uint32_t n;

	for (n = 0; n < CM_MAX_IDS && ids[n].used; n++)
		;
	if (n == CM_MAX_IDS)
		return NULL;
	if (n >= ids_end)
		ids_end = n + 1;
	ids[n] = (struct cm_id){.used = true,
				.handle = n,
				.ps = ps,
				.qp_type = qp_type,
				.channel = channel,
				.sock = -1};
	/* Only the port space of IPoIB takes its key from the group. */
	ids[n].qkey = 0x01234567;
	ids[n].psn = (uint32_t)(cm_now() >> 8) & 0xffffff;
	return &ids[n];
}

struct cm_id *cm_id_find(uint32_t handle)
{
	return handle < CM_MAX_IDS && ids[handle].used ? &ids[handle] : NULL;
}

struct cm_id *cm_id_of(struct cm_channel *channel, uint32_t handle, int *error)
{
	struct cm_id *id = cm_id_find(handle);

	/* A connection is the program's from its CONNECT_REQUEST on. */
	if (id && id->listener)
		id = NULL;
	*error = !id ? -ENOENT : id->channel != channel ? -EINVAL : 0;
	return *error ? NULL : id;
}

void cm_id_each(struct cm_channel *channel, void (*f)(struct cm_id *id, void *p), void *p)
{
	for (uint32_t n = 0; n < ids_end; n++)
		if (ids[n].used && ids[n].channel == channel)
			f(&ids[n], p);
}

bool cm_is_datagram(const struct cm_id *id)
{
	return id->qp_type == IBV_QPT_UD;
}

/* ----------------------------------------------------------------- events */

static struct cm_event *allocate_event(void)
{
	struct cm_event *e = free_events;

	if (e)
		free_events = e->next;
	else if (events_end < CM_MAX_EVENTS)
		e = &events[events_end++];
	if (e)
		memset(e, 0, sizeof(*e));
	return e;
}

void cm_event_free(struct cm_event *e)
{
	e->next = free_events;
	free_events = e;
}

static void append(struct cm_channel *c, struct cm_event *e)
{
	e->next = NULL;
	*c->last = e;
	c->last = &e->next;
	if (c->first == e)
		cm_channel_signal(c);
}

struct cm_event *cm_event_add(struct cm_id *id, enum cm_event_type type, int status)
{
	struct cm_event *e = id->reports ? allocate_event() : NULL;

	if (!e)
		return NULL;
	e->id = id->handle;
	e->resp.uid = id->uid;
	e->resp.id = id->handle;
	e->resp.event = type;
	e->resp.status = (uint32_t)status;
	append(id->channel, e);
	return e;
}

/*
 * Removes the identifier's events from its channel, or those of one group. They move to
 * another channel, or are dropped if that is NULL.
 */
static void remove_events(struct cm_id *id, uint32_t group, struct cm_channel *to)
{
	struct cm_channel *c = id->channel;
	struct cm_event **p = &c->first, *e;
	struct cm_id *arrived;

	while ((e = *p)) {
		if (e->id != id->handle || (group && e->group != group)) {
			p = &e->next;
			continue;
		}
		*p = e->next;
		if (to) {
			append(to, e);
			continue;
		}
		arrived = e->arrived ? cm_id_find(e->arrived - 1) : NULL;
		if (arrived)
			cm_id_destroy(arrived);
		cm_event_free(e);
	}
	c->last = p;
	cm_channel_signal(c);
}

/* ------------------------------------------------------------ identifiers */

/* A child may have the socket too, so that closing it alone would not be seen by the peer. */
void cm_id_close_socket(struct cm_id *id)
{
	if (id->sock < 0)
		return;
	cm_channel_unwatch(id);
	cm_sys(SYS_shutdown, id->sock, SHUT_RDWR);
	cm_sys(SYS_close, id->sock);
	id->sock = -1;
}

/* Connections that arrived here and that the program has not seen. */
static void each_unseen(struct cm_id *listener, void (*f)(struct cm_id *id, struct cm_channel *to),
			struct cm_channel *to)
{
	for (uint32_t n = 0; n < ids_end; n++)
		if (ids[n].used && ids[n].listener == listener->handle + 1)
			f(&ids[n], to);
}

static void destroy_unseen(struct cm_id *id, struct cm_channel *to)
{
	cm_id_destroy(id);
}

void cm_id_destroy(struct cm_id *id)
{
	for (uint32_t n = 0; n < groups_end; n++)
		if (groups[n].used && groups[n].id == id->handle)
			groups[n].used = false;
	cm_id_close_socket(id);
	if (id->state == CM_LISTENING)
		each_unseen(id, destroy_unseen, NULL);
	remove_events(id, 0, NULL);
	id->used = false;
	if (id->deadline)
		cm_channel_set_timer(id->channel);
}

static void move_one(struct cm_id *id, struct cm_channel *to)
{
	bool watched = id->watched;

	cm_channel_unwatch(id);
	id->channel = to;
	if (watched)
		cm_channel_watch(to, id);
}

void cm_id_move(struct cm_id *id, struct cm_channel *to)
{
	struct cm_channel *from = id->channel;

	if (to == from)
		return;
	remove_events(id, 0, to);
	if (id->state == CM_LISTENING)
		each_unseen(id, move_one, to);
	move_one(id, to);
	if (id->deadline) {
		cm_channel_set_timer(from);
		cm_channel_set_timer(to);
	}
}

void cm_id_set_timer(struct cm_id *id, uint64_t ns)
{
	id->deadline = ns ? cm_now() + ns : 0;
	cm_channel_set_timer(id->channel);
}

/* ----------------------------------------------------------------- groups */

struct cm_group *cm_group_join(struct cm_id *id, uint64_t uid)
{
	uint32_t n;

	for (n = 0; n < CM_MAX_GROUPS && groups[n].used; n++)
		;
	if (n == CM_MAX_GROUPS)
		return NULL;
	if (n >= groups_end)
		groups_end = n + 1;
	groups[n] = (struct cm_group){.used = true, .handle = n, .id = id->handle, .uid = uid};
	return &groups[n];
}

struct cm_group *cm_group_find(uint32_t handle)
{
	return handle < CM_MAX_GROUPS && groups[handle].used ? &groups[handle] : NULL;
}

struct cm_event *cm_group_event(struct cm_id *id, struct cm_group *group)
{
	struct cm_event *e = cm_event_add(id, CM_MULTICAST_JOIN, 0);

	if (!e)
		return NULL;
	e->group = group->handle + 1;
	e->resp.uid = group->uid;
	e->resp.id = group->handle;
	return e;
}

void cm_group_leave(struct cm_group *group)
{
	struct cm_id *id = cm_id_find(group->id);

	group->used = false;
	if (id)
		remove_events(id, group->handle + 1, NULL);
}
