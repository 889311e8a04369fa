/* SPDX-License-Identifier: BSD-2-Clause */
/* overlay_copy.h: a directory that cannot have an overlay is copied. */
#ifndef REPLAY_COMMAND_OVERLAY_COPY_H
#define REPLAY_COMMAND_OVERLAY_COPY_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Copies into the directory `to` what the directory `from` has: files and links, and of directories the name.  Files that are mounts
 * become files.  What is neither becomes an empty file, on which it can be mounted.  Of files that this user may not read the copy is empty, and may not be read either.
 * room: how many bytes files may have yet.  False: errno says why, ENOSPC if they have more.
 */
bool sr_overlay_copy(int from, int to, uint64_t *room);

#endif
