/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hooks.h: the functions that calls.def names with "invoke=", "replayed=" and "when=".
 *
 * invoke: in a recording only, for nested calls as well.  Runs the real function (sr_real)
 * with bookkeeping around it, and may pass it other arguments.  The program gets its result.
 *
 * replayed: in a replay only, after the recorded results were delivered.
 *
 * when: is a call with these arguments captured?
 */
#ifndef SHIM_CORE_HOOKS_H
#define SHIM_CORE_HOOKS_H

#include "shim/core/call.h"

#include "hooks.gen.h"

/* fcntl commands whose argument is a number, not a pointer. */
bool sr_fcntl_takes_number(int cmd);

/* Is this thread in the system-call trap (trap.h)? */
bool sr_trapped(const uint64_t *a);

/* An argument of openat. */
bool sr_open_has_mode(int flags);

bool sr_close_captured(const uint64_t *a);
bool sr_fcntl_captured(const uint64_t *a);
bool sr_ioctl_captured(const uint64_t *a);
bool sr_select_captured(const uint64_t *a);

/* poll: is one of the descriptors a captured one? */
bool sr_poll_captured(const uint64_t *a);

/* A thread is being created; from now on the process has several. */
bool sr_makes_thread(const uint64_t *a);

/* Does the process have more than one thread of the program's, or did it ever? */
bool sr_has_threads(const uint64_t *a);

#endif
