/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files.h: the regular files that recorded processes read: size, content hash
 * and, where asked, the content, into the trace (rank-N/files.jsonl, files/).
 *
 * A thread of its own reads them, so that neither the program nor the rings
 * wait.  A file that somebody changes before it is read is noticed by its times.
 * Called from the daemon's main thread.
 */
#ifndef LOGD_WRITER_FILES_H
#define LOGD_WRITER_FILES_H

#include <stdatomic.h>
#include <stdbool.h>

struct files;

struct file_note {
	int fd;                 /* the file, for reading or not; stays the caller's */
	const char *path;       /* "": to be found by fd */
	bool keep;              /* its content too */
	int trace_fd, rank_fd;  /* must stay open until */
	_Atomic unsigned *busy; /* ... this is 0: counts the notes on their way */
};

/* event_fd is written to when a note is done. */
int files_start(struct files **files, int event_fd);
/* What was added is still done. */
void files_stop(struct files *files);

/*
 * 0: path, size and times are in the trace, and the hash will be.  -EINVAL: no
 * regular file; -errno.
 */
int files_add(struct files *files, const struct file_note *note);

#endif
