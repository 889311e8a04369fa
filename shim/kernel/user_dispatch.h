/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * user_dispatch.h: Syscall User Dispatch, by which the kernel turns a thread's system calls
 * into SIGSYS. The mode belongs to the thread. calls/trap/trap.h handles the signals.
 */
#ifndef SHIM_KERNEL_USER_DISPATCH_H
#define SHIM_KERNEL_USER_DISPATCH_H

#include <stdbool.h>

#include "logd/base/compiler.h"

struct sr_thread;

/* Are the program's system calls trapped in this process? */
extern bool sr_trap_is_on SR_HIDDEN;

/* Starts dispatch in the calling thread; the thread's selector switches it. -errno. */
int sr_trap_dispatch(struct sr_thread *t);

/* Arms the calling thread, from inside an intercepted call: takes effect when that call returns. */
void sr_trap_arm_thread(struct sr_thread *t);

/* Disarms the calling thread, which runs no more code of the program. */
void sr_trap_disarm_thread(struct sr_thread *t);

#endif
