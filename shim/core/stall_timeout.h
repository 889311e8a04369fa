/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stall_timeout.h: for how long has another thread of this process been busy? Measured in its own
 * CPU time, so that a thread that gets no time from the machine does not count as busy.
 */
#ifndef SHIM_CORE_STALL_TIMEOUT_H
#define SHIM_CORE_STALL_TIMEOUT_H

#include <stdbool.h>
#include <stdint.h>

struct sr_stall {
	int64_t checked, passed; /* when it was looked at last, and the time since it began, of which a stop of the machine counts little */
	int64_t used;
	int32_t tid;
	int asleep; /* how many checks in a row found the thread asleep */
	bool computes, runs;
	int64_t went_on; /* its time when that was last found out */
};

/* Starts to measure the time. */
void sr_stall_begin(struct sr_stall *p, int32_t tid);

/*
 * True if the thread has computed for this long, sleeps in the kernel, or is gone. Call
 * this a few times per millisecond.
 */
bool sr_stall_ends(struct sr_stall *p, int64_t ns);

/* How much time the thread has used since then, of its own. */
int64_t sr_stall_used(const struct sr_stall *p);

/* After it has ended: did the thread compute, rather than sleep or get no time from the machine? */
bool sr_stall_computes(const struct sr_stall *p);

/* Has it computed for this long since this was last true, or since it ended? It is also true if the thread is gone. */
bool sr_stall_goes_on(struct sr_stall *p, int64_t ns);
/* Or does it sleep in the kernel? */
bool sr_stall_sleeps(struct sr_stall *p);

int64_t sr_stall_now(void);
/* The CPU time of the calling thread. */
int64_t sr_stall_own_time(void);

#endif
