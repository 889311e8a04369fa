/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stall_timeout.h: how long a thread of this process has been about something, by its own time: one
 * that the machine gives none to is waited for.  By who waits, of another thread.
 */
#ifndef SHIM_CORE_STALL_TIMEOUT_H
#define SHIM_CORE_STALL_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

struct sr_stall {
	int64_t since, used;
	int32_t tid;
	int asleep; /* looks in a row that found it so */
};

/* From now on. */
void sr_stall_begin(struct sr_stall *p, int32_t tid);

/* It has computed for so long, or sleeps in the kernel, or is gone.  To be asked a few times a millisecond. */
bool sr_stall_ends(struct sr_stall *p, int64_t ns);

int64_t sr_stall_now(void);

#endif
