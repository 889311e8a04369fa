/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/files/last_outputs.h"

#include <stdatomic.h>
#include <stdint.h>

#include "logd/base/rawsys.h"
#include "shim/core/thread.h"

#define WAIT_MS 300
#define NAP_NS  50000

static _Atomic uint32_t under_way; /* writes, of all threads */
static _Atomic pid_t closed_by;    /* 0: open */

static void nap(void)
{
	sr_sys_nanosleep(&(struct timespec){.tv_nsec = NAP_NS});
}

/*
 * Counts first and looks at the gate afterwards, while sr_outputs_close() closes it first and looks
 * at the count afterwards.  All four are sequentially consistent, so one of the two sees the other.
 */
void sr_output_begins(struct sr_thread *t)
{
	for (;;) {
		pid_t closer;

		atomic_fetch_add(&under_way, 1);
		closer = atomic_load(&closed_by);
		if (__builtin_expect(!closer || closer == (pid_t)sr_sys_gettid(), 1))
			break;
		atomic_fetch_sub(&under_way, 1);
		while (atomic_load(&closed_by))
			nap();
	}
	t->outputs++;
}

void sr_output_ends(struct sr_thread *t)
{
	t->outputs--;
	atomic_fetch_sub(&under_way, 1);
}

bool sr_outputs_are_closed(void)
{
	return __builtin_expect(atomic_load(&closed_by), 0);
}

/* If two threads close it, one of them ends the process, or its exec fails soon. */
void sr_outputs_close(struct sr_thread *t)
{
	int64_t until = sr_sys_now_ms() + WAIT_MS;
	pid_t self = (pid_t)sr_sys_gettid(), nobody = 0;

	while (!atomic_compare_exchange_strong(&closed_by, &nobody, self) && nobody != self &&
	       sr_sys_now_ms() < until) {
		nobody = 0;
		nap();
	}
}

/* A handler that interrupted this thread's own write may end the process: that is not waited for. */
void sr_outputs_await(struct sr_thread *t)
{
	int64_t until = sr_sys_now_ms() + WAIT_MS;

	while (atomic_load(&under_way) > t->outputs && sr_sys_now_ms() < until)
		nap();
}

void sr_outputs_open(void)
{
	pid_t self = (pid_t)sr_sys_gettid();

	atomic_compare_exchange_strong(&closed_by, &self, 0);
}

void sr_outputs_forget(struct sr_thread *t)
{
	atomic_store(&under_way, 0);
	atomic_store(&closed_by, 0);
	t->outputs = 0;
}
