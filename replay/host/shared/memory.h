/* SPDX-License-Identifier: BSD-2-Clause */
/* memory.h: the group's memory file (abi/group.h), from the command's side. */
#ifndef REPLAY_HOST_SHARED_MEMORY_H
#define REPLAY_HOST_SHARED_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "replay/abi/group.h"

/* Made and mapped; NULL with errno. */
struct sr_group *sr_group_make(const int32_t *ranks, size_t n, enum sr_group_transport transport,
			       int *fd);

/* From the file; what cannot be read reads as zeros. */
void sr_group_file_read(int fd, uint64_t at, void *to, size_t n);

/* This member's process has ended: who still waits for it is woken, to see that. */
void sr_group_end_member(struct sr_group *g, uint32_t member);

/* Until none makes calls any more, and all is done again over the device that will be. */
void sr_group_await_end(struct sr_group *g);

#endif
