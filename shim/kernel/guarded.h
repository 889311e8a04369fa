/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * guarded.h: the shim looks at memory that the program passes to a call, which may be no memory. The kernel returns EFAULT
 * then, and some programs ask it in this way whether there is memory. So the shim must not fault there.
 *
 * A fault ends the piece of work that runs guarded, wherever it is: such a piece takes no lock and owns nothing. It costs
 * some nanoseconds, and a signal if it faults. Any thread, and not one guarded piece inside another.
 */
#ifndef SHIM_KERNEL_GUARDED_H
#define SHIM_KERNEL_GUARDED_H

#include <stdbool.h>
#include <stddef.h>

#include "logd/base/compiler.h"

/* Called once. Without it, or where the signal is not the shim's, a fault ends the program. */
int sr_guarded_start(void);

/* Does the work; false: it met memory that is not there. */
bool sr_guarded(void (*work)(void *), void *argument);

/* One of the two may be no memory. Bytes of it may have been copied. */
bool sr_guarded_copy(void *to, const void *from, size_t n);

#endif
