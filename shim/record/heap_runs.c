/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/heap_runs.h"

#include "logd/base/lock.h"
#include "shim/core/run_token.h"
#include "shim/core/thread.h"
#include "shim/record/notes.h"
#include "shim/record/serial.h"
#include "shim/threads/heap_runs.h"

/* owner: the number of the thread whose run is under way; at first the main thread's. */
static struct {
	struct sr_lock lock;
	uint32_t owner;
	uint32_t run, operations;
} heap;

/*
 * Waits for an ending thread. The waiting thread keeps the run token if it can, since the
 * delay is not its own doing.
 */
static void wait_left(struct sr_thread *t)
{
	bool kept = sr_serial && sr_token_keep(&t->run_token);

	sr_heap_wait_left();
	if (kept)
		sr_token_go_on(&t->run_token);
}

static void take_over(struct sr_thread *t)
{
	struct sr_heap_payload payload = {
	    .run = ++heap.run,
	    .previous = heap.operations,
	    .position = t->heap_ops,
	};

	if (sr_heap_is_left())
		wait_left(t);
	t->leaves_heap = false;
	heap.owner = t->number;
	heap.operations = 0;
	t->heap_ops = 0;
	sr_record_note(t, SR_REC_HEAP, &payload, sizeof(payload));
}

/* In front of the operation: sr_serial_run_again() follows. */
static void release_token(struct sr_thread *t)
{
	sr_serial_note(t, &(struct sr_token_payload){.what = SR_RUN_TOKEN_AT_HEAP, .other = (uint32_t)t->heap_ops});
	sr_serial_release(t, SR_TOKEN_AWAY);
	t->waited_at_heap = true;
}

/*
 * Another thread is within an operation, in which an allocator like jemalloc takes locks and reads clocks: it may need the run
 * token to come to its end.
 */
static void __attribute__((noinline)) wait_for_operation(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);
	bool gives = sr_serial && t->started && sr_token_keep(&t->run_token);

	if (gives)
		release_token(t);
	sr_lock(&heap.lock);
	if (gives)
		sr_serial_run_again(t);
	sr_leave(t, before);
}

/*
 * The thread was asked to stop within an operation: in code that makes one after the other, as rand() in a loop, there is no
 * other place for it.  In front of this one it is known by its number.
 */
static void __attribute__((noinline)) let_others_run(struct sr_thread *t)
{
	enum sr_heap before = sr_enter(t);

	t->asked_in_operation = false;
	if (t->started && sr_token_is_asked_for(&t->run_token) && sr_token_keep(&t->run_token)) {
		release_token(t);
		sr_serial_run_again(t);
	}
	sr_leave(t, before);
}

bool sr_record_heap_begin(struct sr_thread *t)
{
	uint32_t number;

	if (t->ended)
		return false;
	number = sr_thread_number(t);
	if (__builtin_expect(t->asked_in_operation, 0))
		let_others_run(t);
	if (!sr_trylock(&heap.lock))
		wait_for_operation(t);
	/*
	 * A leaving thread always begins a run: without that record it would go past its
	 * stream's end.
	 */
	if (heap.owner != number || t->leaves_heap || heap.operations == UINT32_MAX)
		take_over(t);
	return true;
}

void sr_record_heap_end(struct sr_thread *t)
{
	heap.operations++;
	t->heap_ops++;
	sr_unlock(&heap.lock);
}

void sr_record_heap_free(void)
{
	heap.lock = (struct sr_lock){0};
}
