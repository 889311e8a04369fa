/* SPDX-License-Identifier: BSD-2-Clause */
/* confine_calls.h: the filter of system calls, a part of confine.h. */
#ifndef REPLAY_HOST_START_CONFINE_CALLS_H
#define REPLAY_HOST_START_CONFINE_CALLS_H

#include <stdbool.h>

/*
 * From now on the calls that reach other processes, the network or the machine fail with EPERM, in
 * this process and in all that come of it.  no_new_privs is set already.  False: errno says why.
 */
bool sr_confine_calls(void);

#endif
