/* SPDX-License-Identifier: BSD-2-Clause */
/* overlay.h: the files of this machine, of which a process and those that it starts change a
 * private copy. */
#ifndef REPLAY_COMMAND_OVERLAY_H
#define REPLAY_COMMAND_OVERLAY_H

#include <stdbool.h>
#include <stddef.h>

#define SR_LIVE_PATHS 4

/* Directories and files that are not private. */
struct sr_live {
	const char *paths[SR_LIVE_PATHS];
	size_t n;
};

/*
 * From here on what the calling process and its children write to files is gone when they have
 * ended.  That takes a mount namespace, and, without root, a user namespace.  upper: an empty
 * directory, or a name for one, which they do not see.  False after a message with the remedy.
 */
bool sr_overlay_enter(const struct sr_live *live, const char *upper);

#endif
