/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mounts.h: the mounts of a namespace that a process has made for itself.
 *
 * A mount hides what is mounted below it: a trace, the program's directory, a file of a container's.  These are opened before, and
 * put in their places again on what hides them.
 *
 * In a child that becomes another program.
 */
#ifndef REPLAY_HOST_START_MOUNTS_H
#define REPLAY_HOST_START_MOUNTS_H

#include <stdbool.h>

struct sr_mounts;

/*
 * The process gets a mount namespace of its own: alone, or, where that is not allowed, with a user namespace in which user and group
 * have the same numbers as outside.  False: errno says why.
 */
bool sr_mounts_unshare(bool *in_user_namespace);

/* What is mounted in this namespace is seen in no other one.  False: errno says why. */
bool sr_mounts_make_private(void);

/* A mount comes after the one that it is on.  False: errno says why. */
bool sr_mounts_each(void (*take)(void *argument, const char *place, const char *type), void *argument);

/* All of this namespace; sr_mounts_close() frees them.  NULL: errno says why. */
struct sr_mounts *sr_mounts_open(void);
void sr_mounts_close(struct sr_mounts *m);

/* Something has been mounted over the directory, in which these paths, ended by NULL, are as they should be.  False: errno says why. */
bool sr_mounts_put_back(const struct sr_mounts *m, const char *directory, char *const *except);

#endif
