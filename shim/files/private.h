/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * private.h: the files of a replay.
 *
 * A replay changes no file of the host.  A file that the program writes is a private one: it lies
 * in a directory that the command has made for this replay, under the file's key, so it does not
 * matter which names the program gives it.  A file that the program only reads is the one that the
 * trace keeps, or else the host's.  The names of files need no copy of their own: what calls said
 * about them is in the trace.
 *
 * With --live-files there is no such directory, and files are the host's.
 */
#ifndef SHIM_FILES_PRIVATE_H
#define SHIM_FILES_PRIVATE_H

#include <stdbool.h>

#include "shim/core/opened_file.h"

/* dir: of the private files; -1: --live-files. */
void sr_private_start(int dir);

/* Its descriptor, or -1. */
int sr_private_fd(void);

/*
 * Opens what the program opened in the recording.  given: the path that the program gave, relative
 * to dirfd.  A descriptor or -errno.
 */
long sr_private_open(const struct sr_opened_file *file, int dirfd, const char *given, int flags);

/*
 * Somebody else has changed a file that the program writes: it now has the noted content; unless
 * the program stores into it by a mapping, whose content has no order with calls.
 */
void sr_private_refresh(const struct sr_opened_file *file);

/* The program is about to map the file in order to store into it. */
void sr_private_mapped(int fd);

/* Does this descriptor lead to where a standard one of the replay leads?  Also if it is not open.
 */
bool sr_is_inherited(int fd);

#endif
