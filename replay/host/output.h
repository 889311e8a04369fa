/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * output.h: `replay -o DIR`: puts the files that the program wrote below DIR, with the names that
 * they had when it ended.
 */
#ifndef REPLAY_HOST_OUTPUT_H
#define REPLAY_HOST_OUTPUT_H

#include <stdbool.h>

/* Makes DIR, which must be new or empty.  False after a message. */
bool sr_output_make(const char *dir);

/*
 * Call when the process has ended.  files, journal: descriptors of its private files and of what it
 * noted about them (shim/files/changes.h); cwd: where it ran.  Follows no link out of DIR.  Prints
 * where the files are, or what is missing.
 */
void sr_output_keep(const char *dir, int files, int journal, const char *cwd);

#endif
