/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/group/transport.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "replay/command.h"
#include "replay/plan.h"

bool sr_transport_parse(const char *name, enum sr_group_transport *transport)
{
	static const struct {
		const char *name;
		enum sr_group_transport transport;
	} names[] = {{"none", SR_GROUP_NONE}, {"shm", SR_GROUP_SHM}};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(name, names[i].name))
			continue;
		*transport = names[i].transport;
		return true;
	}
	return false;
}

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

/* For all recorded ranks: any group of them finds its own in it. */
static bool make_plan(const char *dir)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return sr_fail("cannot fork: %s", strerror(errno)), false;
	if (!pid) {
		dup2(2, 1); /* standard output is the programs' */
		execl("/proc/self/exe", "sreplay", "process", dir, (char *)NULL);
		_exit(SR_EXIT_FAILED);
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
