/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/user_dispatch.h"

#include <sys/prctl.h>

#include "logd/base/rawsys.h"
#include "shim/core/hooks.h"
#include "shim/core/own_image.h"
#include "shim/core/thread.h"

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_ON           1
#endif

bool sr_trap_is_on;

bool sr_trapped(const uint64_t *a)
{
	return sr_self.armed;
}

#if defined(__x86_64__)

int sr_trap_dispatch(struct sr_thread *t)
{
	return (int)sr_syscall(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON,
			       SR_ARG(__ehdr_start), (long)sr_own_code_bytes(), SR_ARG(&t->selector), 0);
}

void sr_trap_arm_thread(struct sr_thread *t)
{
	if (sr_trap_is_on && !t->armed && !sr_trap_dispatch(t))
		t->armed = SR_TRAP_BLOCK;
}

void sr_trap_disarm_thread(struct sr_thread *t)
{
	t->armed = SR_TRAP_ALLOW;
	sr_select(t);
}

#else

void sr_trap_arm_thread(struct sr_thread *t)
{
}

void sr_trap_disarm_thread(struct sr_thread *t)
{
}

#endif
