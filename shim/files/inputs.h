/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inputs.h: regular files that the recorded program reads.
 *
 * They are taken as unchanged inputs: at the first use the daemon notes size
 * and content hash (and keeps the content, where asked), so that a replay can
 * name one that has changed.  Called by the wrappers of open and its kin, inside
 * of the shim's own section (sr_enter): a handler that interrupts it comes
 * through unrecorded, and so not here.
 */
#ifndef SHIM_FILES_INPUTS_H
#define SHIM_FILES_INPUTS_H

#include <stdbool.h>

struct sr_client;

/* keep: the content too. */
void sr_files_start(struct sr_client *client, bool keep);
/* In a child, which is not recorded. */
void sr_files_stop(void);

/*
 * The program has just opened fd with these flags.  What is no regular file, or
 * an output (truncated, or written to and empty), is none of ours; nor is what
 * the kernel makes up in /proc and the like.  Waits until the daemon has the
 * file; leaves errno alone.
 */
void sr_files_opened(int fd, int flags);

/* Its content is the kernel's answer and no file's: /proc, /sys, ... */
bool sr_files_made_up(int fd);

#endif
