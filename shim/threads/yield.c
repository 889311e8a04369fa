/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * yield.c: sched_yield.  A loop that waits for a peer calls it at each turn, so it must not cost a trap; and memory
 * that the thread watches is looked at (sr_exposed_yields).  Where threads run one at a time it is a recorded call,
 * to which the trap leads.
 */
#include <sched.h>
#include <sys/syscall.h>

#include "logd/base/compiler.h"
#include "logd/base/rawsys.h"
#include "shim/core/engine.h"
#include "shim/core/next.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"

SR_EXPORT int sched_yield(void)
{
	SR_NEXT(next, "sched_yield");

	if (!sr_engine_is_active() || sr_self.depth || (sr_serial && sr_threaded))
		return ((int (*)(void))sr_next(&next))();
	sr_exposed_yields();
	/* What a replay waits for comes from its trace: nobody else brings it, unless another thread of the process does. */
	if (!sr_engine->replays || sr_threaded)
		sr_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
	return 0;
}
