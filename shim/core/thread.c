/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/thread.h"

#include <stdatomic.h>

#include "shim/core/order.h"

__thread struct sr_thread sr_self;
bool sr_threaded;
struct sr_events sr_events;

static _Atomic uint32_t next_number;

uint32_t sr_thread_next_number(void)
{
	return atomic_fetch_add(&next_number, 1);
}

uint32_t sr_thread_number(struct sr_thread *t)
{
	if (!t->numbered) {
		t->number = sr_thread_next_number();
		t->numbered = true;
	}
	return t->number;
}

void sr_thread_reserve_number(uint32_t number)
{
	uint32_t next = atomic_load(&next_number);

	while (next <= number && !atomic_compare_exchange_weak(&next_number, &next, number + 1))
		;
}
