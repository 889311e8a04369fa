/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * user_dispatch.h: Syscall User Dispatch, by which the kernel turns a thread's system calls
 * into SIGSYS.  The mode is the thread's.  What is made of the signals is in calls/trap/trap.h.
 */
#ifndef SHIM_KERNEL_USER_DISPATCH_H
#define SHIM_KERNEL_USER_DISPATCH_H

#include <stdbool.h>

#include "logd/base/compiler.h"

struct sr_thread;

/* Are the program's system calls trapped in this process? */
extern bool sr_trap_is_on SR_HIDDEN;

/* In the calling thread; its selector says from when on.  -errno. */
int sr_trap_dispatch(struct sr_thread *t);

/* The calling thread, from inside an intercepted call: takes effect when that is left. */
void sr_trap_arm_thread(struct sr_thread *t);

/* The calling thread is done with the program's code. */
void sr_trap_disarm_thread(struct sr_thread *t);

#endif
