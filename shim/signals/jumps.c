/* SPDX-License-Identifier: BSD-2-Clause */
/* jumps.c: longjmp and related functions, which change the thread's mask without a mask call. */
#include <setjmp.h>

#include "logd/base/compiler.h"
#include "shim/core/next.h"
#include "shim/signals/signals.h"
#include "shim/core/thread.h"

/*
 * The jump sets the kernel's mask from the buffer, where sigsetjmp stored it without the
 * hidden signals. Whether the program had blocked one of these then is unknown, so they
 * count as unblocked.
 */
static void jump(const struct __jmp_buf_tag *env)
{
	if (env->__mask_was_saved)
		sr_signals_unhide();
}

typedef void (*jump_function)(struct __jmp_buf_tag *env, int value) __attribute__((noreturn));

SR_EXPORT void siglongjmp(sigjmp_buf env, int value)
{
	SR_NEXT(next, "siglongjmp");

	jump(env);
	((jump_function)sr_next(&next))(env, value);
}

SR_EXPORT void longjmp(jmp_buf env, int value)
{
	SR_NEXT(next, "longjmp");

	jump(env);
	((jump_function)sr_next(&next))(env, value);
}

SR_EXPORT void _longjmp(jmp_buf env, int value)
{
	SR_NEXT(next, "_longjmp");

	jump(env);
	((jump_function)sr_next(&next))(env, value);
}

void __longjmp_chk(struct __jmp_buf_tag *env, int value) __attribute__((noreturn));

SR_EXPORT void __longjmp_chk(struct __jmp_buf_tag *env, int value)
{
	SR_NEXT(next, "__longjmp_chk");

	jump(env);
	((jump_function)sr_next(&next))(env, value);
}
