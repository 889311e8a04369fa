/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shown.h: the context that a handler finds when its signal came in a call.
 *
 * The thread is in the shim then, or in what the shim calls: at other instructions in a recording than in a replay, and in
 * functions that the program knows nothing of.  A handler that prints its caller's stack would show these.  So it finds the
 * program's own code, as if the call had no frames: behind the instruction that makes the call, with the registers that a call
 * leaves alone, and zeros in the others.  When the handler returns, the thread goes on where it was.
 */
#ifndef SHIM_SIGNALS_SHOWN_H
#define SHIM_SIGNALS_SHOWN_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/core/thread.h"

#define SR_HIDDEN_REGISTERS 18 /* all general ones, the instruction's address, and the flags */

/* What *uc was before, and the address that it shows; 0: it shows what it was. */
struct sr_hidden_context {
	uint64_t registers[SR_HIDDEN_REGISTERS];
	uintptr_t shown;
};

/*
 * The thread is in a call, or at its begin or end, and *uc is in the shim or beneath it.  If the program's code is not found,
 * *uc stays.  In a signal's handler of the shim; allocates nothing and takes no lock.
 */
void sr_show_caller(const struct sr_thread *t, ucontext_t *uc, struct sr_hidden_context *hidden);

/* False: the handler has changed the address, and the program goes on there.  The call is left, as by a jump. */
bool sr_unshow_caller(ucontext_t *uc, const struct sr_hidden_context *hidden);

#endif
