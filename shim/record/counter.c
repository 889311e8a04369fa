/* SPDX-License-Identifier: BSD-2-Clause */
/* In this file the program's values are in the vector registers, but for serve(). */
#pragma GCC push_options
#pragma GCC target("general-regs-only")

#include "shim/record/counter.h"

#include "shim/core/call.h"
#include "shim/core/engine.h"
#include "shim/core/order.h"
#include "shim/core/phases.h"
#include "shim/core/thread.h"
#include "shim/exposed/exposed.h"
#include "shim/kernel/tsc.h"
#include "shim/record/call.h"
#include "shim/verbs/compared.h"
#include "shim/verbs/idle_poll.h"
#include "shim/verbs/regions.h"

static inline uint64_t read_counter(struct counter_read *r)
{
	uint32_t low, high;

	if (r->with_aux)
		__asm__ volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(r->aux));
	else
		__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

/* A record as call.c writes it: the head, what rdtscp reads besides, the number of the event. */
struct record {
	struct sr_record head;
	struct sr_call_head call;
	unsigned char rest[1 + sizeof(uint32_t) + sizeof(uint64_t)];
	unsigned char padding[3];
};

_Static_assert(sizeof(struct record) % SR_RECORD_ALIGN == 0, "its end is the padded one's");

/* Records of polls that were counted (cycle.h), in front of it. */
#define COUNTED_BYTES (2 * sizeof(struct sr_record) + sizeof(struct sr_cycle_payload) + sizeof(struct sr_repeat_payload))

static bool is_recorded(void)
{
	return sr_engine && (sr_engine->call == sr_record_call || sr_engine->call == sr_record_serial_call);
}

/* Is the record all that there is to do? */
static bool is_usual(const struct sr_thread *t)
{
	return is_recorded() && t->started && !t->silent &&
	       !t->signals.waiting && !t->ring.busy && t->ring.head + sizeof(struct record) + COUNTED_BYTES <= t->ring.limit;
}

/* What the general path does with exposed regions around a call, if that is nothing much. */
static bool is_alone(void)
{
	return !sr_regions_on || (!sr_compared_any() && sr_exposed_call_alone());
}

/*
 * If threads run one at a time, the thread keeps the run token, as the counter never waits.  False: another one wants it,
 * or something else is to be done as well.
 */
static bool keep_token(struct sr_thread *t, const struct counter_read *r)
{
	if (sr_phases_any || t->ended || !sr_token_keep_unwanted(&t->run_token))
		return false;
	t->run_token.site = r->pc;
	return true;
}

/* Returns the record's size. */
static uint32_t put_record(struct record *to, struct counter_read *r)
{
	unsigned char *end = to->rest;
	uint64_t event;

	__builtin_memset(end, 0, sizeof(to->rest) + sizeof(to->padding));
	to->call.site = r->pc;
	to->call.error = *sr_self.error;
	to->call.in_size = 0;
	to->call.orders = sr_threaded;
	r->value = to->call.result = read_counter(r);
	*end++ = r->with_aux;
	if (r->with_aux) {
		__builtin_memcpy(end, &r->aux, sizeof(r->aux));
		end += sizeof(r->aux);
	}
	if (sr_threaded) {
		event = sr_draw_event();
		__builtin_memcpy(end, &event, sizeof(event));
		end += sizeof(event);
	}
	to->head.size = (uint32_t)(end - (unsigned char *)to);
	to->head.kind = SR_REC_CALL + SR_CALL_rdtsc;
	to->head.flags = 0;
	return to->head.size;
}

/* Of whole words. */
static void put_counted_record(struct sr_ring *ring, uint16_t kind, const uint64_t *payload, uint32_t size)
{
	struct sr_record *to = (struct sr_record *)(ring->data + (ring->head & ring->mask));

	to->size = (uint32_t)sizeof(*to) + size;
	to->kind = kind;
	to->flags = 0;
	for (uint32_t i = 0; i < size / sizeof(*payload); i++)
		((uint64_t *)(to + 1))[i] = payload[i];
	ring->head += sizeof(*to) + size;
}

static void put_counted(struct sr_thread *t)
{
	union {
		struct sr_cycle_payload cycle;
		uint64_t words[2];
	} p;
	uint64_t rest = sr_idle_polls_close(t, &p.cycle);

	if (p.cycle.calls)
		put_counted_record(&t->ring, SR_REC_CYCLE, p.words, sizeof(p));
	if (rest)
		put_counted_record(&t->ring, SR_REC_REPEAT, &rest, sizeof(rest));
}

/* True: the consumer has to be woken. */
static bool put_into_ring(struct sr_thread *t, struct counter_read *r)
{
	struct sr_ring *ring = &t->ring;
	struct record *to;
	uint32_t size;

	if (t->repeats)
		put_counted(t);
	to = (struct record *)(ring->data + (ring->head & ring->mask));

	__builtin_prefetch((char *)to + 512, 1);
	size = put_record(to, r);
	ring->head += sr_record_padded(size);
	atomic_store_explicit(&ring->shared->head, ring->head, memory_order_release);
	return ring->head >= atomic_load_explicit(&ring->shared->wake_at, memory_order_relaxed);
}

static bool fast(struct counter_read *r)
{
	struct sr_thread *t = &sr_self;
	bool wakes, in_turn;

	if (t->depth || !t->armed || !sr_engine) {
		/* The trap may have come back. */
		if (sr_tsc_trapping)
			return false;
		r->value = read_counter(r);
		return true;
	}
	in_turn = sr_threaded && sr_serial;
	if (!is_usual(t) || !is_alone() || (in_turn && !keep_token(t, r)))
		return false;
	t->depth++;
	/* A handler that runs at its end lies on the program's stack where the replay, which makes a call, has it. */
	t->signals.base = (uintptr_t)__builtin_frame_address(0);
	atomic_signal_fence(memory_order_seq_cst);
	t->ring.busy = 1;
	atomic_signal_fence(memory_order_seq_cst);
	wakes = put_into_ring(t, r);
	t->idle.sn += t->idle.sn == t->sn;
	t->sn++;
	t->last_kind = 0; /* what follows is no repeat of the last record */
	t->last.len = 0;
	t->signals.call_entry = 0;
	atomic_signal_fence(memory_order_seq_cst);
	t->ring.busy = 0;
	if (in_turn)
		sr_token_go_on(&t->run_token);
	t->depth--;
	atomic_signal_fence(memory_order_seq_cst);
	r->is_done = wakes || t->signals.waiting;
	return !r->is_done;
}

#pragma GCC pop_options

static void serve(struct counter_read *r)
{
	struct sr_thread *t = &sr_self;
	enum sr_heap before;

	if (!r->is_done) {
		r->value = sr_tsc_read(r->pc, r->with_aux ? &r->aux : NULL);
		return;
	}
	before = sr_enter(t);
	sr_ring_wake_consumer(&t->ring);
	sr_leave_call(t, before);
}

const struct counter_handlers sr_record_counter = {.stack = sr_tsc_stack, .fast = fast, .serve = serve};
