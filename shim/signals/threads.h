/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.h: what other threads of the process have blocked. */
#ifndef SHIM_SIGNALS_THREADS_H
#define SHIM_SIGNALS_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* One of these signals, in a thread but the calling one.  Allocates nothing. */
bool sr_signal_blocked_elsewhere(uint64_t signals);

#endif
