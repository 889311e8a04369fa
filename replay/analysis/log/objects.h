/* SPDX-License-Identifier: BSD-2-Clause */
/* objects.h: is a file on this machine the one that the recorded process had mapped? */
#ifndef REPLAY_ANALYSIS_LOG_OBJECTS_H
#define REPLAY_ANALYSIS_LOG_OBJECTS_H

#include <jansson.h>
#include <stdbool.h>

/* What identifies the file: as the recorder noted it, and as the file is now. */
struct sr_object_identity {
	const char *what;     /* "build id" or "content hash" */
	const char *recorded; /* NULL: the recorder could not read the file */
	char now[256];
};

/*
 * Opens a file that a trace names: a descriptor, the caller's to close; or -errno.  -EMEDIUMTYPE: it
 * is no regular file; -EFBIG: no program or library is as large, and to read it may take for ever.
 */
int sr_object_open(const char *path);

/*
 * object: an element of process.json's "objects".  True if the open file is the recorded
 * one, or if the recorder could not say which one it had.
 */
bool sr_object_is_same_file(int fd, const json_t *object, struct sr_object_identity *id);

#endif
