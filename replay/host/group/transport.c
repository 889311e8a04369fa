/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/group/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/command/command.h"
#include "replay/host/proxy/proxy.h"
#include "replay/abi/memory.h"
#include "replay/analysis/plan/plan.h"

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

/* ---------------------------------------------------------------- the way */

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

bool sr_transport_open(struct sr_transport *t, const int32_t *ranks, size_t n,
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

static void say_carried(const struct sr_group_proxy *c)
{
	typedef unsigned long long ull;

	sr_note("over %s: %llu WRITEs, %llu SENDs, %llu READs, %llu atomics, %llu bytes", c->text,
		(ull)c->requests[SR_TRANSFER_WRITE], (ull)c->requests[SR_TRANSFER_SEND],
		(ull)c->requests[SR_TRANSFER_READ], (ull)c->requests[SR_TRANSFER_ATOMIC],
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
		say_carried(&t->group->proxy);
	t->proxy = 0;
}

/* --------------------------------------------------------------- the plan */

static bool is_among(const int32_t *ranks, size_t n, int32_t rank)
{
	for (size_t i = 0; i < n; i++)
		if (ranks[i] == rank)
			return true;
	return false;
}

static bool has_plan(struct sr_trace *t, const int32_t *ranks, size_t n)
{
	struct sr_plan *p;
	struct sr_error err;
	const int32_t *group;
	size_t size, there = 0;

	if (sr_plan_open(&p, t, &err))
		return false;
	group = sr_plan_group(p, &size);
	for (size_t i = 0; i < n; i++)
		there += is_among(group, size, ranks[i]);
	sr_plan_close(p);
	return there == n;
}

/*
 * For all recorded ranks: any group of them finds its own in it.  In a process of its own,
 * whose memory goes with it; not by an exec, which takes as long as a short trace's plan.
 */
static bool make_plan(const char *dir)
{
	char *argv[] = {"process", (char *)dir, NULL};
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		return sr_fail("cannot fork: %s", strerror(errno)), false;
	if (!pid) {
		dup2(2, 1); /* standard output is the programs' */
		status = sr_cmd_process(2, argv);
		fflush(NULL);
		_exit(status);
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

bool sr_transport_plan(struct sr_trace *t, const char *dir, const int32_t *ranks, size_t n)
{
	if (has_plan(t, ranks, n) || (make_plan(dir) && has_plan(t, ranks, n)))
		return true;
	sr_fail("there is no plan for %s, and \"sreplay process\" could make none", dir);
	return false;
}
