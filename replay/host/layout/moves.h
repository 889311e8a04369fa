/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * moves.h: moves what the kernel has mapped for a new process, its program, ld.so and the stack, to
 * where they were in the recorded one.  Nothing is relocated yet at that moment: ld.so has not run.
 */
#ifndef REPLAY_HOST_LAYOUT_MOVES_H
#define REPLAY_HOST_LAYOUT_MOVES_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/host/layout/stopped.h"

/* What is added to the addresses in it; multiples of a page. */
struct sr_moves {
	uint64_t program, loader, stack;
};

static inline bool sr_moves_any(const struct sr_moves *by)
{
	return by->program || by->loader || by->stack;
}

/* An address in each; 0: there is none.  (A program without PT_INTERP has no loader.) */
struct sr_images {
	uint64_t program, loader, stack;
};

/* False: it could not be done, and the process is unusable.  s->regs and s->code are those of the moved process. */
bool sr_move_images(struct sr_stopped *s, const struct sr_images *here, const struct sr_moves *by);

#endif
