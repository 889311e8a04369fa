/* SPDX-License-Identifier: BSD-2-Clause */
/* files.h: the files that the recorded process read: are they still the same, and what were they?
 */
#ifndef REPLAY_HOST_FILES_H
#define REPLAY_HOST_FILES_H

#include "logd/trace/reader.h"

/*
 * A note for each file that is not as it was when the recorded process first
 * used it (the replay may be exact all the same).  restored: the replay gets
 * those that the trace keeps from there, so only the others matter.
 * False after a message if the trace's list of them is damaged.
 */
bool sr_files_check(struct sr_trace *t, int32_t rank, const char *dir, bool restored);

/*
 * Lay the kept ones out under root, each at its path, with the directories above
 * it as they are on this machine.  Nothing is followed out of root.  False after
 * a message.
 */
bool sr_files_restore(struct sr_trace *t, int32_t rank, const char *dir, const char *root);

#endif
