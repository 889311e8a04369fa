/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * paths.h: the path of an open file, from the kernel.  Any thread, in a section.
 *
 * To look up the name below /proc takes longer than opening the file did, so that a recorded process has
 * the directory open.  Even so it takes as long as that.  But where no symbolic link was met, the path is what the
 * program has said.
 */
#ifndef SHIM_FILES_PATHS_H
#define SHIM_FILES_PATHS_H

#include <stddef.h>

void sr_paths_start(void);
void sr_paths_stop(void);

/* The directory's descriptor, or -1. */
int sr_paths_own_fd(void);

/*
 * As openat(2), if that meets no symbolic link: then *path is the full path.  -ENOENT and -EINTR are what openat would say, too.
 * With any other error the file must be opened in the usual way.
 */
long sr_open_without_links(int dirfd, const char *given, int flags, unsigned int mode, char *path, size_t size);

/* Opens the file of a descriptor once more, for another kind of access: a descriptor, or -errno. */
int sr_open_again(int fd, int flags);

/* From here on a filter of the program's may forbid the system call for that. */
void sr_paths_restrict(void);

/* The full path as the process sees it, or "" if it does not fit. */
void sr_find_path(int fd, char *path, size_t size);

#endif
