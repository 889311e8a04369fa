/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stall_timeout.h: for how long has another thread of this process been busy, by its own
 * time?  A thread that the machine gives no time to has not.
 */
#ifndef SHIM_CORE_STALL_TIMEOUT_H
#define SHIM_CORE_STALL_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

struct sr_stall {
	int64_t since, used;
	int32_t tid;
	int asleep; /* how many checks in a row found it so */
};

/* The time counts from now on. */
void sr_stall_begin(struct sr_stall *p, int32_t tid);

/*
 * True if the thread has computed for so long, or sleeps in the kernel, or is gone.  To be
 * called a few times a millisecond.
 */
bool sr_stall_ends(struct sr_stall *p, int64_t ns);

int64_t sr_stall_now(void);

#endif
