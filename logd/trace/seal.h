/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * seal.h: the proof that this user's own daemon recorded a rank on this machine.
 *
 * A replay runs what the trace names.  A trace that somebody else made is therefore replayed in a
 * sandbox, and nothing in the trace itself can say otherwise.  The daemon seals each rank: a MAC
 * by a key of the user's own, over the machine, the user, process.json, and which file that is
 * (inode and time of birth).  So a copy of a trace has no seal that holds, whoever copied it.
 *
 * Any thread; not in recorded processes.
 */
#ifndef LOGD_TRACE_SEAL_H
#define LOGD_TRACE_SEAL_H

#include <stdbool.h>

/*
 * Seals the rank whose directory this is: writes its file `seal`.  Makes the user's key if there is
 * none, HOME/.local/state/sreplay/seal.key.  0 or -errno.
 */
int sr_seal_make(int rank_fd);

/* Does the rank have a seal that holds, of this user on this machine? */
bool sr_seal_holds(int rank_fd);

#endif
