/* SPDX-License-Identifier: BSD-2-Clause */
/* stacks.h: from which callers the calls and loads of the ranks came, as replays found it
 * (replay/abi/stacks.h). */
#ifndef REPLAY_ANALYSIS_RACES_STACKS_H
#define REPLAY_ANALYSIS_RACES_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/analysis/log/keymap.h"

struct sr_race_stacks {
	struct sr_race_stack_note *notes; /* by rank, thread, site, and position */
	size_t n, room;
	uint64_t *frames;
	size_t frames_n, frames_room;
	struct sr_keymap places; /* of a stack's frames: of its hash, by rank */
	struct sr_keymap codes;  /* of sites, by rank */
	struct sr_race_library {
		char *path;
		uint64_t begin, end;
		uint32_t rank;
	} *libraries; /* that the ranks had loaded, not all of them */
	size_t libraries_n, libraries_room;
};

/* A file that the replay of a rank has written.  0, -ENOMEM or -EIO. */
int sr_race_stacks_read(struct sr_race_stacks *s, uint32_t rank, const char *path);
/* When all are read. */
void sr_race_stacks_sort(struct sr_race_stacks *s);
void sr_race_stacks_free(struct sr_race_stacks *s);

/* Of a call, or, with a fault, of a load; 0: not known.  s may be NULL. */
uint64_t sr_race_stack(const struct sr_race_stacks *s, uint32_t rank, uint32_t thread,
		       uint64_t site, uint64_t sn, uint32_t fault);
/* The same, if it was taken at this very load: another one by the same instruction may have another. */
uint64_t sr_race_stack_exactly(const struct sr_race_stacks *s, uint32_t rank, uint32_t thread, uint64_t site, uint64_t sn, uint32_t fault);

/* A site by a name that it has in each run of the program; 0: not known. */
uint64_t sr_race_code(const struct sr_race_stacks *s, uint32_t rank, uint64_t site);

/* Its frames, from the site outwards; how many. */
size_t sr_race_stack_frames(const struct sr_race_stacks *s, uint32_t rank, uint64_t stack,
			    const uint64_t **frames);

#endif
