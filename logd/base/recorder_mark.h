/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recorder_mark.h: how a recorded job tells sreplay's own program from one that it is to record.
 */
#ifndef LOGD_BASE_RECORDER_MARK_H
#define LOGD_BASE_RECORDER_MARK_H

/* A constant of sreplay's executable, whole with its last 0, and of no other one.  It names libibverbs, too: only then is this looked for. */
#define SR_RECORDER_MARK "sreplay starts programs that are recorded, and is none of them"

#endif
