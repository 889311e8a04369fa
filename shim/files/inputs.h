/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inputs.h: the regular files that the recorded program reads.
 *
 * A replay reads these files again and expects them unchanged. So the daemon notes the size
 * and a hash of the content when the program first opens a file, and keeps the content if
 * the user asked for that. A replay names each file that has changed. The wrappers of open
 * and similar functions call this module, inside a section (sr_enter).
 */
#ifndef SHIM_FILES_INPUTS_H
#define SHIM_FILES_INPUTS_H

#include <stdbool.h>

struct sr_client;

/* keep: the daemon also keeps the content. */
void sr_files_start(struct sr_client *client, bool keep);
/* For a child process, which is not recorded. */
void sr_files_stop(void);

/*
 * Call after the program has opened fd with these flags. Ignores anything but regular files,
 * outputs (truncated, or empty and writable), and files in /proc and similar file systems, whose
 * content the kernel generates. Waits until the daemon has noted the file. Preserves errno.
 */
void sr_files_opened(int fd, int flags);

/* Does the kernel generate the content of this file (/proc, /sys, ...)? */
bool sr_files_made_up(int fd);

#endif
