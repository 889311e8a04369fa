/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * changes.h: what a replay does with calls that change the file system.
 *
 * It does not make them: their results are in the trace, and the files of a replay are private
 * (private.h).  Only the size of a private file is set.  The hooks are the functions
 * sr_replayed_change, sr_replayed_truncate, sr_replayed_resize, sr_replayed_lseek and sr_replayed_chdir of calls.def.
 *
 * For `replay -o DIR` the process writes a journal of these calls: which file has which name.  The
 * command makes the tree below DIR of it when the replay has ended (replay/host/output.h).  An
 * entry is the name of a call and its arguments, each followed by a zero byte: a text as it is, a
 * number in decimal, anything else as "".  Besides those there are opened FD KEY MODE PATH a
 * private file has this name; made with this mode, or -1 directory FD PATH      FD leads to this
 * directory duplicate FROM TO      of a descriptor
 */
#ifndef SHIM_FILES_CHANGES_H
#define SHIM_FILES_CHANGES_H

#include "shim/core/opened_file.h"

/* journal: a descriptor; -1: none is wanted. */
void sr_changes_start(int journal);

/* The journal's descriptor, or -1. */
int sr_changes_fd(void);

/* fd: the number that the program has; mode: of a new file. */
void sr_changes_opened(const struct sr_opened_file *file, int fd, int flags, unsigned int mode);
void sr_changes_duplicated(int from, int to);

struct sr_call_desc;
/* What was read came from the trace: the position of a captured file moves on. */
void sr_replayed_read(const struct sr_call_desc *d, const uint64_t *a, uint64_t result);

#endif
