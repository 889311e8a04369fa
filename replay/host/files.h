/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * files.h: the files that the recorded process read: whether they have changed, and their recorded
 * contents.
 */
#ifndef REPLAY_HOST_FILES_H
#define REPLAY_HOST_FILES_H

#include "logd/trace/reader.h"

/*
 * Prints a note for each file that has changed since the recorded process first used it (the
 * replay may still be exact).  kept: the replay uses the trace's copies, so only files without a copy
 * matter.  False after a message if the trace's list of files is damaged.
 */
bool sr_files_check(struct sr_trace *t, int32_t rank, bool kept);

/*
 * Makes a link in this directory to each content that the trace keeps, named by the number of its
 * note.  False after a message.
 */
bool sr_files_link(struct sr_trace *t, int32_t rank, const char *trace, int directory);

#endif
