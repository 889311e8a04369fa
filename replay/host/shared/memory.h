/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.h: the group's memory file (abi/group.h), from the command's side. */
#ifndef REPLAY_HOST_SHARED_MEMORY_H
#define REPLAY_HOST_SHARED_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "replay/abi/group.h"

/* Makes and maps the file; NULL with errno. */
struct sr_group *sr_group_make(const int32_t *ranks, size_t n, enum sr_group_transport transport,
			       int *fd);

/* Reads from the file; what cannot be read is zero. */
void sr_group_file_read(int fd, uint64_t at, void *to, size_t n);

/* This member's process has ended: wakes all that wait for it. */
void sr_group_end_member(struct sr_group *g, uint32_t member);

/*
 * Waits until no member makes calls any more, and the proxy has done all work items it ever will.
 */
void sr_group_await_end(struct sr_group *g);

#endif
