/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/shared/control.h"

#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

struct sr_replay_control *sr_control_make(int *fd)
{
	struct sr_replay_control *c;

	*fd = memfd_create("sreplay-control", MFD_CLOEXEC);
	if (*fd < 0 || ftruncate(*fd, sizeof(*c)))
		return NULL;
	c = mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
	if (c == MAP_FAILED)
		return NULL;
	c->magic = SR_REPLAY_MAGIC;
	c->version = SR_TRACE_VERSION;
	c->thread_at = offsetof(struct sr_replay_control, thread);
	c->thread_bytes = sizeof(c->thread[0]);
	c->rings_fd = c->group_fd = c->files_fd = c->journal_fd = c->watch_fd = c->stacks_fd = c->produced_fd = -1;
	return c;
}
