/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * paths.h: which path names the software device serves, and from where.
 *
 * ci/softdev preloads libsoftdev_files.so into its programs. A kernel with RDMA serves files below
 * some folders of /sys (`served` in paths.c) and device nodes below /dev/infiniband. Programs that
 * run in a fabric (SOFTDEV_FABRIC is set) get files of this library's instead: those in the folder
 * tree/ beside it, which tree.c makes when it is built. They are the same in all fabrics, and are
 * still there for a replay when the fabric is gone.
 *
 *     paths.c   the path names
 *     files.c   the functions of libc that take path names
 *
 * The library calls only libc, by the functions that a program would have called. So a recorder
 * that is preloaded as well, or that traps system calls, sees the calls as the program's own, with
 * the path name in the tree.
 */
#ifndef SOFTDEV_PATHS_H
#define SOFTDEV_PATHS_H

#include <limits.h>
#include <stddef.h>

/* Room for a path name in the tree. */
#define SF_ROOM (2 * PATH_MAX)

/* The path to use: `path` itself, or `room` with the file's path in the tree. */
const char *sf_path(const char *path, char *room);

/* Turns a path in the tree, of which a call told the program, into the one that a kernel would have
 * told. */
void sf_hide_tree(char *path);

/* A descriptor, -1 with errno, or SF_NOT_A_DEVICE. */
#define SF_NOT_A_DEVICE (-2)
int sf_open_device(const char *path, int flags);

#endif
