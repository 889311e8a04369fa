/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sides.h: what the parts of shim/confirm do for one of the two accesses, by its number.
 *
 * begins: before a recorded call; ends: after it.  The calling thread is in a section.
 */
#ifndef SHIM_CONFIRM_SIDES_H
#define SHIM_CONFIRM_SIDES_H

#include "logd/base/page.h"
#include "shim/confirm/agreement.h"
#include "shim/core/call.h"
#include "shim/core/stack.h"
#include "shim/core/thread.h"

/* Is it the recorded place?  Libraries may be elsewhere now, by whole pages. */
static inline bool sr_confirm_is_place(uint64_t address, uint64_t recorded, uint64_t code)
{
	if ((address ^ recorded) & (PAGE - 1))
		return false;
	return code ? sr_stack_place(address) == code : address == recorded;
}

/* One more call at its place.  Is it an instance that is looked for? */
bool sr_confirm_is_instance(int i, void *site);

/* requests.c */
void sr_confirm_request_begins(int i, const uint64_t *a, enum sr_call_number n);
void sr_confirm_request_ends(int i, struct sr_thread *t, enum sr_call_number n);
/* The program is about to destroy what requests need: none is held any more. */
void sr_confirm_release_requests(void);

/* cpu.c */
void sr_confirm_inline_begins(int i);
void sr_confirm_inline_ends(int i);
void sr_confirm_store_may_come(int i, struct sr_thread *t);
/* Is a thread about to store? */
bool sr_confirm_awaits_store(int i);
/* An access of the CPU's: it is held if need be.  False: it is not one of the two. */
bool sr_confirm_cpu_arrives(int i, uint64_t begin, uint64_t end);
/* What both access has the value that access `i` found or left. */
void sr_confirm_note_memory(int i);
/* is_next: this is the call that came after the store in the recording. */
void sr_confirm_store_may_have_come(int i, const struct sr_thread *t, bool is_next);
void sr_confirm_watch_load(int i);

/* instructions.c */
/* Makes breakpoints, if that is possible yet. */
void sr_confirm_watch_instruction(int i);
bool sr_confirm_has_instruction(int i);
/* Bytes that the load accesses, from an address that faulted. */
size_t sr_confirm_load_size(int i, uintptr_t pc, uint64_t address);
/* The thread may come to the store before its next call; NULL: none may. */
void sr_confirm_expect_store(int i, const struct sr_thread *t);

#endif
