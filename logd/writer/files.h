/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files.h: notes the regular files that recorded processes read in the trace: size, hash of the
 * content and, if wanted, the content (rank-N/files.jsonl, files/).
 *
 * Threads of their own for each file system do that, so that neither the program nor the rings wait
 * for the content.  They notice by size and time if a file was changed before it could be read.  The
 * functions are for the daemon's main thread.
 */
#ifndef LOGD_WRITER_FILES_H
#define LOGD_WRITER_FILES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "logd/service/connection.h"

struct files;
/* The files that one process reads: those that are not kept are held open, in case that others replace them. */
struct read_files;

struct file_note {
	int fd;                 /* the file, open in any mode; stays the caller's */
	const char *path;       /* "": that of fd is looked up */
	uint64_t number;        /* by which records refer to this note; 0: none do */
	bool keep;              /* the content goes into the trace */
	const struct connection *asker;
	const struct sr_message *request; /* the asker's, answered when the file is noted */
};

/* Where the notes of a process go. */
struct files_place {
	dev_t device;           /* of the trace */
	int trace_fd, rank_fd;  /* must stay open until *busy is 0 */
	_Atomic unsigned *busy; /* counts what is not done */
};

/* event_fd (an eventfd) is written to whenever a note is done.  0 or -errno. */
int files_start(struct files **files, int event_fd);
/* Finishes what was added, and frees *files.  False: it hangs, and *files is not freed. */
bool files_stop(struct files *files);

/* NULL: no memory. */
struct read_files *files_of_process(struct files *files, const struct files_place *place);
/* When nothing of it is under way. */
void files_forget(struct read_files *of);

/*
 * 0: the asker is answered when path and size are in the trace, and the rest will be.  -EINVAL: not
 * a regular file; other -errno.
 */
int files_add(struct read_files *of, const struct file_note *note);

/* A small file that has been noted by a record; file: its identity in files.jsonl.  Any thread. */
void files_hold(struct read_files *of, const struct stat *st, const char *path, size_t path_bytes, const char *file, uint64_t number);

/* 0: the asker is answered when those are held that were given to files_hold() before; or -errno. */
int files_await_held(struct read_files *of, const struct connection *asker, const struct sr_message *request);

/* The process has ended: keeps what others have replaced meanwhile. */
void files_keep_replaced(struct read_files *of);

#endif
