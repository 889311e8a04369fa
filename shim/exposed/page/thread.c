/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/exposed/page/thread.h"

/* What a thread compares at breakpoints while it waits for none. */
const uint64_t exposed_no_word;
__thread struct exposed_thread exposed_self SR_INITIAL_EXEC = {.probe.word = &exposed_no_word, .probe.want = 1};

NO_VECTORS void thread_epoch_begins(void)
{
	static _Atomic uint32_t threads;

	exposed_self.epoch = (uint64_t)(atomic_fetch_add(&threads, 1) + 1) << 32 | 1;
}

NO_VECTORS void thread_epoch_ends(void)
{
	uint64_t now = thread_epoch();

	/* The lower half may wrap around. */
	exposed_self.epoch = (now & ~0xffffffffull) | (uint32_t)(now + 1);
}
