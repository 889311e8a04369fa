/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * hooks.h: the functions that calls.def names with "invoke=", "replayed=" and "when=".
 *
 * invoke: runs the real function (sr_real) with bookkeeping around it, and may change its
 * arguments. Its result goes to the program. Only in a recording; also for nested calls.
 *
 * replayed: called in a replay only, after the recorded results were delivered.
 *
 * when: is a call with these arguments captured?
 */
#ifndef SHIM_CORE_HOOKS_H
#define SHIM_CORE_HOOKS_H

#include "shim/core/call.h"

#include "hooks.gen.h"

/* fcntl commands whose argument is a number, not a pointer. */
bool sr_fcntl_takes_number(int cmd);

/* fcntl commands that say which lock another process holds. */
/* How many bytes a successful fcntl writes at its argument. */
size_t sr_fcntl_answer(int cmd);

/* Is this thread in the system-call trap (trap.h)? */
bool sr_trapped(const uint64_t *a);

/* Does openat with these flags have a mode argument? */
bool sr_open_has_mode(int flags);

bool sr_close_captured(const uint64_t *a);
bool sr_fcntl_captured(const uint64_t *a);
bool sr_ioctl_captured(const uint64_t *a);
bool sr_select_captured(const uint64_t *a);

/* Is one of the descriptors of poll captured? */
bool sr_poll_captured(const uint64_t *a);

/* Called when a thread is being created; from then on the process has several. */
bool sr_makes_thread(const uint64_t *a);

/*
 * Does the process have more than one thread of the program, or did it ever?  Or may other processes take this lock,
 * since it lies in memory that they share?
 */
bool sr_has_threads(const uint64_t *a);

/* Is what pthread_cancel does here recorded? */
bool sr_cancels(const uint64_t *a);

/* Does the lock, or the word of a futex, lie in memory that processes share? */
bool sr_is_lock_of_processes(uint64_t addr);

#endif
