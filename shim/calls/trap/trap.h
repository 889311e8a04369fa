/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trap.h: the system-call trap, under the wrappers.
 *
 * glibc makes most of its system calls without a symbol that could be interposed (stdio,
 * malloc, ld.so, the resolver), and a program can make its own.  Syscall User Dispatch (Linux
 * 5.11, prctl(2)) turns each system call of an armed thread into SIGSYS, unless it comes from
 * this library's text or the thread's selector allows it.  The handler makes of it
 *     a call of calls.def, which goes to the engine as from a wrapper;
 *     the system call itself, if it concerns only the process (table.h says which);
 *     the recorded call unknown_system_call, and a message, if it is neither.
 *
 * The selector blocks while a thread runs the program's code.  It allows while the thread is
 * inside an intercepted call, whose system calls are not the program's (sr_enter and sr_leave in
 * core/thread.h set it).  A trapped call costs some 2 us, so frequent calls have wrappers.
 *
 * The kernel keeps the dispatch per thread; it is off in new threads, in children and after
 * execve.  The main thread is armed, and so are those that the program creates by
 * pthread_create.
 *
 * A replay has the same trap.
 */
#ifndef SHIM_CALLS_TRAP_TRAP_H
#define SHIM_CALLS_TRAP_TRAP_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "shim/kernel/user_dispatch.h"

/*
 * Called by the main thread, before main; -errno if this kernel or machine has no such dispatch.
 * Nothing is trapped before sr_trap_begin(), which comes after sr_signals_start().
 */
int sr_trap_start(void);
void sr_trap_begin(int32_t recorded_pid); /* 0: this is a recording */

#endif
