/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.h: reads which signals other threads of the process have blocked. */
#ifndef SHIM_SIGNALS_THREADS_H
#define SHIM_SIGNALS_THREADS_H

#include <stdbool.h>
#include <stdint.h>

/* Has a thread other than the calling one blocked one of these signals? Allocates nothing. */
bool sr_signal_blocked_elsewhere(uint64_t signals);

#endif
