/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trap.h: the system-call trap, below the wrappers.
 *
 * glibc makes most of its system calls without a symbol that could be interposed (stdio,
 * malloc, ld.so, the resolver), and a program can make its own.  Syscall User Dispatch (Linux
 * 5.11, prctl(2)) turns each system call of an armed thread into SIGSYS, unless it comes from
 * this library's text or the thread's selector allows it.  The handler then makes
 *     a call of calls.def, which goes to the engine as if from a wrapper;
 *     or the system call itself, if it concerns only the process (see table.h);
 *     or else the recorded call unknown_system_call, and prints a message.
 *
 * The selector blocks system calls while a thread runs the program's code.  It allows them while
 * the thread is inside an intercepted call, because those are not the program's (sr_enter and
 * sr_leave in core/thread.h set it).  A trapped call costs about 2 us, so frequent calls have
 * wrappers.
 *
 * The kernel keeps the dispatch per thread; it is off in new threads, in children and after
 * execve.  The main thread is armed, and so are those that the program creates by
 * pthread_create.
 *
 * A replay uses the same trap.
 */
#ifndef SHIM_CALLS_TRAP_TRAP_H
#define SHIM_CALLS_TRAP_TRAP_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "shim/kernel/user_dispatch.h"

/*
 * The main thread calls sr_trap_start before main.  It returns -errno if this kernel or machine
 * has no such dispatch.  Nothing is trapped before sr_trap_begin(), which must be called after
 * sr_signals_start().
 */
int sr_trap_start(void);
void sr_trap_begin(int32_t recorded_pid); /* 0: this is a recording */

/*
 * Makes the resolver read its files now.  Otherwise it reads them at the first look-up, which may be
 * inside a call of librdmacm or getaddrinfo that a replay does not make.  At each look-up of the
 * program's it asks whether they have changed since.
 */
void sr_trap_load_resolver(void);

#endif
