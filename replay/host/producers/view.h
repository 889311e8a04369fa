/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * view.h: what the members of a group that has ended left in its file, mapped: it is read for
 * each word that entered, and a system call for each would take most of the time.
 */
#ifndef REPLAY_HOST_PRODUCERS_VIEW_H
#define REPLAY_HOST_PRODUCERS_VIEW_H

#include <stdint.h>

#include "replay/abi/group.h"

struct sr_view_part {
	const uint8_t *bytes;
	uint64_t n;
};

/* n 0: it is empty, or cannot be mapped. */
struct sr_view_part sr_view_map(int fd, uint64_t at, uint64_t n);
void sr_view_unmap(struct sr_view_part *p);

/* What the threads of the members knew, call by call. */
struct sr_view_positions {
	struct sr_view_part *of[SR_GROUP_MEMBERS]; /* by thread; each is mapped when it is asked for */
};

/* What the origin's member knew of `member` when it made that call: its last position up to then. */
uint64_t sr_view_knew(struct sr_view_positions *v, int fd, const struct sr_group *g,
		      const struct sr_group_origin *o, uint32_t member);
void sr_view_positions_free(struct sr_view_positions *v);

#endif
