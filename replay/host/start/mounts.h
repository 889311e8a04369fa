/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mounts.h: what is mounted in a directory, over which something else is to be mounted.
 *
 * A mount hides what is mounted below it: a trace, the program's directory, a file of a container's.  These are opened before, and
 * put in their places again on what hides them.
 *
 * In the child that becomes the program, in a mount namespace of its own.
 */
#ifndef REPLAY_HOST_START_MOUNTS_H
#define REPLAY_HOST_START_MOUNTS_H

#include <stdbool.h>

struct sr_mounts;

/* All of this namespace; sr_mounts_close() frees them.  NULL: errno says why. */
struct sr_mounts *sr_mounts_open(void);
void sr_mounts_close(struct sr_mounts *m);

/* Something has been mounted over the directory.  False: errno says why. */
bool sr_mounts_put_back(const struct sr_mounts *m, const char *directory);

#endif
