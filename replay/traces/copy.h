/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * copy.h: copies ranks from trace to trace.
 *
 * Links, FIFOs and drafts are no part of a trace and are not followed.  Functions that return int return
 * 0 or -errno unless they say otherwise.
 */
#ifndef REPLAY_TRACES_COPY_H
#define REPLAY_TRACES_COPY_H

#include <limits.h>
#include <stdint.h>

/* For this user only, as the daemon makes them: a trace holds the memory of a process. */
#define SR_COPY_DIR_MODE 0700

/* Called as bytes are copied; NULL: nobody wants to know. */
extern void (*sr_copy_progress)(uint64_t bytes);

/* The rank with all that is in its directory.  -EEXIST: it is there already.  *bad: which file failed. */
int sr_copy_rank(int from_trace, int to_trace, int32_t rank, char bad[NAME_MAX + 1]);

/* Of a directory that has only files.  *bad: the one that could not be copied. */
int sr_copy_files(int from_dir, int to_dir, int (*copy)(int from, int to, const char *name),
		  char bad[NAME_MAX + 1]);
/* For sr_copy_files: what a rank's directory has, with the images and children in it. */
int sr_copy_of_rank(int from_dir, int to_dir, const char *name);

/* A copy of one's own recording by oneself.  Without the seal its replay has a sandbox. */
void sr_copy_seal(int from, int to);

/* The contents that `record --record-files` has kept.  An exit status, after a message. */
int sr_copy_kept_files(const char *dir, int from_trace, int to_trace);
int sr_copy_manifest(int from_trace, int to_trace);

/* A descriptor, or -errno. */
int sr_copy_open_directory(int dir, const char *name);

/* What an error of these functions means. */
const char *sr_copy_reason(int err);

#endif
