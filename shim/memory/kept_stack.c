/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/memory/kept_stack.h"

#include <string.h>

#include "shim/core/stack_below.h"
#include "shim/memory/heap.h"

/* For the frames of the two functions themselves, and what they call. */
#define OWN_BYTES 768

void __attribute__((noinline)) sr_stack_keep(const struct sr_thread *t, struct sr_kept_stack *k)
{
	char *top = __builtin_frame_address(0);

	k->at = top - SR_STACK_DEEP;
	k->copy = sr_stack_has_room(t, (uintptr_t)top) ? sr_alloc(SR_STACK_DEEP - OWN_BYTES) : NULL;
	if (k->copy)
		memcpy(k->copy, k->at, SR_STACK_DEEP - OWN_BYTES);
}

void __attribute__((noinline)) sr_stack_put_back(struct sr_kept_stack *k)
{
	if (!k->copy)
		return;
	memcpy(k->at, k->copy, SR_STACK_DEEP - OWN_BYTES);
	sr_free(k->copy);
}
