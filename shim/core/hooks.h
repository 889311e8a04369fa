/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hooks.h: the functions that calls.def names with "invoke=" and "replayed=".
 *
 * invoke: recording only.  Runs the real function (sr_real) with bookkeeping
 * around it, for nested calls too, and may hand it other arguments; what it
 * returns is what the program gets.
 *
 * replayed: replay only, after the recorded results were delivered.
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

/* A thread is being created: the process has several from now on. */
bool sr_makes_thread(const uint64_t *a);

/* Does the process have, or did it ever have, more than one thread of the program's? */
bool sr_has_threads(const uint64_t *a);

#endif
