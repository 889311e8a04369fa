/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layer_path.h: where a mapped file lies, if the kernel does not say it.
 *
 * Of an overlay whose lower directory is on another overlay (a container's files in a container, or `sreplay confirm` in one),
 * /proc/PID/maps has a path within that lower directory: /prog of an overlay on /work, in place of /work/prog.
 */
#ifndef LOGD_WRITER_LAYER_PATH_H
#define LOGD_WRITER_LAYER_PATH_H

#include <limits.h>
#include <stdbool.h>

/* mounts: the text of the process's mountinfo, or NULL.  False: the file is at its path, or at none of them. */
bool layer_path(const char *mounts, const char *path, char found[PATH_MAX]);

#endif
