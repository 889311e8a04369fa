/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inputs.h: regular files that the recorded program reads.
 *
 * A replay reads them again and expects them unchanged.  So at the first use the daemon notes
 * the size and a hash of the content, and keeps the content if that was asked for; a replay names
 * a file that has changed.  Called by the wrappers of open and similar functions, inside a
 * section (sr_enter).
 */
#ifndef SHIM_FILES_INPUTS_H
#define SHIM_FILES_INPUTS_H

#include <stdbool.h>

struct sr_client;

/* keep: the daemon keeps the content, too. */
void sr_files_start(struct sr_client *client, bool keep);
/* In a child, which is not recorded. */
void sr_files_stop(void);

/*
 * The program has just opened fd with these flags.  Ignores what is no regular file, an output
 * (truncated, or empty and writable), and what the kernel makes up in /proc and similar file
 * systems.  Waits until the daemon has noted the file; leaves errno alone.
 */
void sr_files_opened(int fd, int flags);

/* Does the kernel make the content up: /proc, /sys, ...? */
bool sr_files_made_up(int fd);

#endif
