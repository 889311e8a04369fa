/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stack.c: exposed pages in which the program has a stack: that of a coroutine, of a signal's handler, of a thread.
 *
 * There each frame would be an access; and the shim, which is called on that stack, would fault while it has the lock.  What
 * peers store is elsewhere, so these pages become the program's own.  Nobody tells where a coroutine's stack ends: those near
 * the stack pointer do, and others when it comes there.  A buffer beside it, which has a part of such a page, is told of
 * (hooks.lost_to_stack).
 */
#include "shim/exposed/access.h"
#include "shim/exposed/exposed.h"
#include "shim/exposed/page/event.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/pieces.h"

/* What a call of the shim's takes of the program's stack, at most; and what is given up below the stack pointer at once. */
#define NEEDED (16ul << 10)
#define BELOW  (32ul << 10)

/* Where the next word comes: the stack pointer of an empty stack points to something else. */
static uintptr_t next_word(uintptr_t sp)
{
	return sp - sizeof(uint64_t);
}

bool sr_exposed_has_stack(uintptr_t sp)
{
	const struct page *p = page_at(next_word(sp));

	return p && (p->state != PAGE_NONE || (p->stack && page_is_exposed(sp - NEEDED)));
}

static bool is_next(uintptr_t at)
{
	const struct page *p = page_at(at);

	return p && (p->state != PAGE_NONE || p->stack);
}

void stack_give_up(uintptr_t sp)
{
	uintptr_t at = next_word(sp) & PAGE_MASK;

	while (sp - at < BELOW && is_next(at - PAGE))
		at -= PAGE;
	for (; at < sp; at += PAGE) {
		if (!page_is_exposed(at))
			continue;
		if (hooks.lost_to_stack)
			pieces_each(at, hooks.lost_to_stack);
		page_give_up(at);
		page_at(at)->stack = true;
	}
}

void sr_exposed_give_up_stack(uintptr_t sp)
{
	uint64_t mask;

	exposed_lock(&mask);
	event_begin(exposed_self.fault, SR_EXPOSED_AT_CALL, 0, 0);
	replay_values();
	stack_give_up(sp);
	event_end();
	exposed_unlock(&mask);
}
