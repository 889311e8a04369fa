/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/group/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/print/say.h"
#include "replay/host/proxy/proxy.h"
#include "replay/host/shared/memory.h"

bool sr_transport_parse(const char *name, enum sr_group_transport *transport)
{
	static const struct {
		const char *name;
		enum sr_group_transport transport;
	} names[] = {{"none", SR_GROUP_NONE}, {"shm", SR_GROUP_SHM}, {"rxe", SR_GROUP_RXE}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i].name))
			continue;
		*transport = names[i].transport;
		return true;
	}
	return false;
}

bool sr_transport_ready(struct sr_transport *t)
{
	if (t->wanted == SR_GROUP_NONE || t->wanted == SR_GROUP_SHM)
		return true;
	if (t->proxy && !sr_proxy_await(t->group, t->proxy))
		t->proxy = 0;
	if (t->proxy && t->wanted == SR_GROUP_BEST)
		sr_note("what the ranks do to each other is done again over %s",
			t->group->proxy.text);
	if (t->proxy)
		return true;
	if (t->wanted == SR_GROUP_BEST) {
		sr_note("what the ranks do to each other is done again through shared memory: %s",
			t->group->proxy.text);
		t->group->transport = SR_GROUP_SHM;
		return true;
	}
	sr_fail("--transport rxe: %s.  A device over any network interface: \"modprobe rdma_rxe; "
		"rdma link add rxe0 type rxe netdev eth0\"; or without one: --transport shm",
		t->group->proxy.text);
	return false;
}

bool sr_transport_open(struct sr_transport *t, const struct sr_trace *trace, const int32_t *ranks, size_t n,
		       enum sr_group_transport wanted)
{
	pid_t proxy = 0;

	*t = (struct sr_transport){.group_fd = -1, .wanted = wanted};
	if (wanted == SR_GROUP_NONE)
		return true;
	t->group =
	    sr_group_make(ranks, n, wanted == SR_GROUP_SHM ? wanted : SR_GROUP_RXE, &t->group_fd);
	if (!t->group) {
		sr_fail("cannot make the group's memory: %s", strerror(errno));
		return false;
	}
	for (size_t i = 0; i < n; i++)
		snprintf(t->group->member[i].name, sizeof(t->group->member[i].name), "%s",
			 sr_trace_rank_name(trace, ranks[i]));
	if (wanted != SR_GROUP_SHM)
		proxy = sr_proxy_start(t->group, t->group_fd);
	t->proxy = proxy > 0 ? proxy : 0;
	return true;
}

void sr_transport_abandon(struct sr_transport *t)
{
	if (t->proxy)
		sr_proxy_end(t->proxy);
	t->proxy = 0;
}

bool sr_transport_lost(struct sr_transport *t, pid_t pid)
{
	if (!t->proxy || pid != t->proxy)
		return false;
	t->proxy = 0;
	sr_proxy_lost(t->group);
	return true;
}

static void say_transferred(const struct sr_group_proxy *c)
{
	typedef unsigned long long ull;

	sr_note("over %s: %llu WRITEs, %llu SENDs, %llu READs, %llu atomics, %llu bytes", c->text,
		(ull)c->requests[SR_OP_KIND_WRITE], (ull)c->requests[SR_OP_KIND_SEND],
		(ull)c->requests[SR_OP_KIND_READ], (ull)c->requests[SR_OP_KIND_ATOMIC],
		(ull)c->bytes);
	if (atomic_load(&c->others))
		sr_note("through shared memory: %llu requests, whose queue pairs are not RC",
			(ull)atomic_load(&c->others));
}

void sr_transport_close(struct sr_transport *t)
{
	if (t->proxy)
		sr_proxy_end(t->proxy);
	if (t->group && t->group->transport == SR_GROUP_RXE)
		say_transferred(&t->group->proxy);
	t->proxy = 0;
}
