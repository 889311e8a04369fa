/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trap.h: the system-call trap at the system-call level, under the wrappers.
 *
 * glibc makes most of its system calls past every symbol that could be
 * interposed (stdio, malloc, ld.so, the resolver), and a program can make its
 * own.  Syscall User Dispatch (Linux 5.11, prctl(2)) turns each system call of
 * an armed thread into SIGSYS, unless it is made from this library's text or
 * the thread's selector says "allow".  The handler makes of it
 *     a call of calls.def, which goes to the engine as from a wrapper;
 *     the system call itself, if it concerns only the process (trap.c says which);
 *     the recorded call unknown_system_call, and one line, if it is neither.
 *
 * The selector blocks while a thread runs the program's code, and allows while
 * it is inside an intercepted call: what is called from there is not the
 * program's (sr_enter and sr_leave in thread.h set it).  A trapped call costs
 * some 2 us, so what is hot has a wrapper.
 *
 * The kernel keeps the dispatch per thread, off in new threads, in children and across
 * execve.  Armed are the main thread and those that the program creates by pthread_create.
 *
 * The same net is there in a replay.
 */
#ifndef SHIM_CALLS_TRAP_TRAP_H
#define SHIM_CALLS_TRAP_TRAP_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "shim/kernel/user_dispatch.h"

/*
 * From the main thread, before main; -errno if this kernel or machine has no such dispatch.
 * Nothing is caught before sr_trap_begin(), after sr_signals_start().
 */
int sr_trap_start(void);
void sr_trap_begin(int32_t recorded_pid); /* 0: this is a recording */

#endif
