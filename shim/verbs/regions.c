/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/regions.h"

#include <errno.h>
#include <sreplay/trace.h>

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "logd/base/say.h"
#include "shim/core/engine.h"
#include "shim/core/hooks.h"
#include "shim/core/order.h"
#include "shim/core/stack.h"
#include "shim/core/thread.h"
#include "shim/exposed/probe/made_code.h"
#include "shim/exposed/x86/vector.h"
#include "shim/kernel/guarded.h"
#include "shim/memory/heap.h"
#include "shim/memory/images.h"
#include "shim/process/children.h"
#include "shim/signals/signals.h"
#include "shim/threads/main_stack.h"
#include "shim/threads/program_threads.h"
#include "shim/threads/stacks.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/compared.h"
#include "shim/verbs/own_memory.h"
#include "shim/verbs/region_records.h"
#include "shim/verbs/waits.h"

bool sr_regions_on;

static int compared_n; /* replay: how many regions were compared */

static enum sr_regions_mode mode = SR_REGIONS_OFF;
static struct sr_exposed_hooks hooks;
/* 1 until the first region; then the result of the module's start. */
static int ready = 1;
static int claim_error;
static struct sr_lock starting;

/* Called with the lock of the exposed regions held. */
static void record_exposed_event(const struct sr_exposed_event *e)
{
	static struct sr_event_writer w;

	sr_record_exposed_event(&w, e);
}

/* No ticks inside a call: there the program's code runs no loop that could wait. */
static bool may_tick(void)
{
	return sr_self.depth == 0;
}

/* Probes call this, too, while the vector registers hold the program's values. */
NO_VECTORS static bool threads(void)
{
	return sr_threaded;
}

static bool is_loaders(uintptr_t pc)
{
	return sr_is_loader((const void *)pc);
}

NO_VECTORS static enum sr_exposed_wanted wanted(void)
{
	if (!sr_serial || !sr_threaded)
		return SR_EXPOSED_ALL_RUN;
	if (sr_token_is_lost(&sr_self.run_token))
		return SR_EXPOSED_OTHERS_RUN;
	if (sr_token_is_due())
		return SR_EXPOSED_OTHERS_FIRST;
	return sr_token_is_wanted() ? SR_EXPOSED_OTHERS_WAIT : SR_EXPOSED_ALL_RUN;
}

static bool yield(uint64_t fault, uintptr_t pc)
{
	return sr_engine && sr_engine->yields && sr_engine->yields(&sr_self, fault, pc);
}

NO_VECTORS static bool orders_stores(void)
{
	return sr_clocks_member;
}

/*
 * Buffers beside a coroutine's stack: what lies on a page of it is compared at calls.  Found in a fault's handler, and
 * compared from the next call on.
 */
static struct {
	struct sr_lock lock; /* taken under the exposed regions' lock; nothing else is taken under it */
	_Atomic uint32_t n;
	bool any; /* ever */
	struct lost {
		uintptr_t addr;
		size_t length;
	} list[64];
} lost;

static void lost_to_stack(uintptr_t addr, size_t length)
{
	sr_lock(&lost.lock);
	if (lost.n < sizeof(lost.list) / sizeof(*lost.list))
		lost.list[lost.n++] = (struct lost){addr, length};
	lost.any = true;
	sr_unlock(&lost.lock);
}

static void find_stack_end(void *to)
{
	*(uintptr_t *)to = sr_stack_end();
}

/* A program's own code may mislead an unwinder. */
static uintptr_t stack_end(void)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t end;

	if (sr_is_on_main_stack(here) || sr_stack_is_placed((void *)here))
		return 0;
	return sr_guarded(find_stack_end, &end) ? end : 0;
}

static bool take_lost(struct lost *to)
{
	bool any;

	sr_lock(&lost.lock);
	any = lost.n;
	if (any)
		*to = lost.list[--lost.n];
	sr_unlock(&lost.lock);
	return any;
}

void sr_regions_compare_lost(void)
{
	struct sr_exposed_region w;
	struct lost l;

	while (atomic_load_explicit(&lost.n, memory_order_relaxed) && take_lost(&l)) {
		sr_regions_compare(&w, (void *)l.addr, l.length, SR_EXPOSED_REFUSED_STACK);
		/* Peers may have written there since the page was given up. */
		if (w.compared)
			sr_compared_all_anew(w.compared);
	}
}

/*
 * Claimed at the start: no other thread can have the signal blocked then, and each later thread
 * is created with it unblocked.
 */
static void claim_faults(void)
{
	if (mode == SR_REGIONS_PROTECT)
		claim_error = sr_signals_claim(SIGSEGV, sr_exposed_fault);
}

/*
 * The first thread's thread-local memory: what the program has there lies beside the shim's and libc's, which a fault's
 * handler itself uses.  Other threads have theirs on their stacks.
 */
static struct {
	uintptr_t begin, end;
} first_tls;

#define LIBC_TLS (4ul << 10)   /* of libc's variables, before errno; and of its data of a thread, behind the thread pointer */

static uintptr_t smaller(uintptr_t a, const void *b)
{
	return a < (uintptr_t)b ? a : (uintptr_t)b;
}

static void find_first_tls(void)
{
	const uintptr_t pointer = (uintptr_t)__builtin_thread_pointer();

	first_tls.begin = sr_page_down(smaller(smaller(pointer, &sr_self), &errno) - LIBC_TLS);
	first_tls.end = pointer + LIBC_TLS;
}

static bool is_in_first_tls(const void *addr, size_t length)
{
	return sr_page_down((uintptr_t)addr) < first_tls.end && sr_page_up((uintptr_t)addr + length) > first_tls.begin;
}

void sr_regions_start(enum sr_regions_mode m, bool patch, bool together)
{
	mode = m;
	hooks = (struct sr_exposed_hooks){
	    .event = record_exposed_event,
	    .found = sr_clocks_sample,
	    .storing = sr_clocks_store,
	    .orders_stores = orders_stores,
	    .threads = threads,
	    .is_loaders = is_loaders,
	    .wanted = wanted,
	    .yield = yield,
	    .is_its_own = sr_own_memory_is,
	    .may_tick = may_tick,
	    .passes = sr_clocks_passes,
	    .lost_to_stack = lost_to_stack,
	    .stack_end = stack_end,
	    .patches = patch,
	    .together = together,
	};
	find_first_tls();
	claim_faults();
}

void sr_regions_start_replay(const struct sr_exposed_hooks *of_replay)
{
	mode = SR_REGIONS_PROTECT;
	vector_start();
	hooks = *of_replay;
	hooks.threads = threads;
	hooks.is_loaders = is_loaders;
	hooks.stack_end = stack_end;
	hooks.yield = sr_serial ? yield : NULL;
	hooks.may_tick = may_tick;
	claim_faults();
}

void sr_regions_mapping_ends(void *addr, size_t size)
{
	made_code_ends(addr, size);
	if (sr_regions_on && sr_exposed_touches(addr, size))
		sr_exposed_forget(addr, size);
	sr_compared_forget(addr, size);
}

static void before_fork(void)
{
	if (sr_regions_on)
		sr_exposed_before_fork();
}

static void after_fork(bool child)
{
	if (sr_regions_on)
		sr_exposed_after_fork(child);
	if (!child)
		return;
	sr_regions_on = false;
	/* A child that is recorded, or replayed, begins anew with its first region. */
	if (sr_engine)
		ready = 1;
	else
		mode = SR_REGIONS_OFF;
}

/* Starts the module with the first region, so that other processes do not pay for it. */
static bool is_ready(void)
{
	sr_lock(&starting);
	if (ready == 1) {
		ready = claim_error;
		if (!ready)
			ready = sr_exposed_init(&hooks);
		if (!ready)
			sr_children_watch_memory(before_fork, after_fork);
		else
			sr_say("memory that peers write cannot be watched (error %d): it is "
			       "compared at each call",
			       -ready);
	}
	sr_unlock(&starting);
	return !ready;
}

#define REMOTE (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND)

/* What the thread's call changes when it has been recorded; now: it is doing that. */
static __thread struct {
	void (*change)(struct ibv_mr *mr, struct sr_exposed_region *old); /* NULL: nothing */
	struct ibv_mr *mr;
	struct sr_exposed_region *old;
	bool now;
} at_return SR_INITIAL_EXEC;

static void record_region(uint32_t what, const struct sr_exposed_region *w, uint32_t why)
{
	sr_record_region(what | (at_return.now ? SR_REGION_AT_RETURN : 0), w, why);
}

void sr_regions_compare(struct sr_exposed_region *w, void *addr, size_t length,
			enum sr_exposed_refusal why)
{
	*w = (struct sr_exposed_region){.addr = addr, .length = length};
	sr_own_memory_registered(addr, length);
	/* Memory that the CPU cannot read, or all memory, cannot be compared. */
	if (why != SR_EXPOSED_REFUSED_UNMAPPED)
		w->compared = sr_compared_begin(addr, length);
	record_region(SR_REGION_ADDED, w, why);
	sr_regions_on = true;
}

/* The process does not see its stores there. */
static void note_unwatched(int access)
{
	if (access & (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND))
		sr_clocks_unwatched();
}

static enum sr_exposed_refusal expose(void *addr, size_t length)
{
	if (sr_stack_is_placed(addr) || is_in_first_tls(addr, length))
		return SR_EXPOSED_REFUSED_STACK;
	return is_ready() ? sr_exposed_add(addr, length) : SR_EXPOSED_REFUSED_BY_KERNEL;
}

void sr_regions_add(struct sr_exposed_region *w, void *addr, size_t length, int access)
{
	enum sr_exposed_refusal refusal = SR_EXPOSED_REFUSED_BY_USER;

	*w = (struct sr_exposed_region){0};
	/* The program does not access what the verbs libraries register for themselves. */
	if (mode == SR_REGIONS_OFF || !length || sr_heap_is_placed(addr)) {
		note_unwatched(access);
		return;
	}
	if (!(access & REMOTE) && !(sr_regions_on && sr_exposed_touches(addr, length))) {
		note_unwatched(access);
		sr_own_memory_registered(addr, length);
		return;
	}
	sr_waits_memory_begins(addr, length);
	if (mode == SR_REGIONS_PROTECT)
		refusal = expose(addr, length);
	if (refusal) {
		sr_waits_memory_ends();
		note_unwatched(access);
		sr_regions_compare(w, addr, length, refusal);
		return;
	}
	*w = (struct sr_exposed_region){.addr = addr, .length = length, .is_protected = true};
	/* With on-demand paging, the device also writes what is mapped there later. */
	if (access & IBV_ACCESS_ON_DEMAND)
		sr_own_memory_registered(addr, length);
	record_region(SR_REGION_ADDED, w, 0);
	sr_regions_on = true;
	sr_waits_memory_ends();
}

bool sr_regions_share(void *addr, size_t length, bool empty)
{
	if (mode != SR_REGIONS_PROTECT || !is_ready())
		return false;
	/* What others stored before is not known: the first access of each page brings it. */
	sr_own_memory_registered(addr, length);
	sr_waits_memory_begins(addr, length);
	if (sr_exposed_add(addr, length) != SR_EXPOSED_OK) {
		sr_waits_memory_ends();
		return false;
	}
	if (empty)
		sr_exposed_is_empty(addr, length);
	sr_exposed_keep_values(addr, length);
	sr_exposed_meets(addr, length);
	sr_clocks_unwatched();
	sr_regions_on = true;
	sr_waits_memory_ends();
	return true;
}

static void end_region(struct sr_exposed_region *w)
{
	if (!w->addr)
		return;
	if (w->is_protected && lost.any)
		sr_compared_forget(w->addr, w->length);
	if (w->compared)
		sr_compared_end(w->compared);
	record_region(SR_REGION_REMOVED, w, !w->is_protected);
	w->addr = NULL;
}

void sr_regions_take_back(struct sr_exposed_region *w)
{
	if (w->addr && w->is_protected)
		sr_exposed_take_back(w->addr, w->length);
	end_region(w);
}

void sr_regions_drop(struct sr_exposed_region *w)
{
	if (!w->addr)
		return;
	if (w->is_protected && at_return.now)
		sr_exposed_remove_at_return(w->addr, w->length);
	else if (w->is_protected)
		sr_exposed_remove(w->addr, w->length);
	end_region(w);
}

void sr_regions_change_at_return(const struct sr_call_desc *d, void (*change)(struct ibv_mr *mr, struct sr_exposed_region *old),
				 struct ibv_mr *mr, struct sr_exposed_region *old)
{
	/* Within another call its library may use the memory otherwise before that call returns. */
	if (sr_threaded && sr_self.makes == d) {
		at_return.change = change;
		at_return.mr = mr;
		at_return.old = old;
	} else {
		change(mr, old);
	}
}

void sr_regions_change_now(void)
{
	if (!at_return.change)
		return;
	at_return.now = true;
	at_return.change(at_return.mr, at_return.old);
	at_return.now = false;
	at_return.change = NULL;
}

bool sr_regions_replay_region(const struct sr_region_payload *region)
{
	void *addr = (void *)(uintptr_t)region->addr;
	const bool added = (region->what & ~SR_REGION_AT_RETURN) == SR_REGION_ADDED;

	sr_regions_on = true;
	if (!is_ready())
		return false;
	/* Compared memory changes at calls, or while the program waits for it. */
	if (region->refusal) {
		compared_n += added ? 1 : -1;
		sr_exposed_await_values(compared_n > 0);
		return true;
	}
	if (added)
		return sr_exposed_add(addr, region->length) == SR_EXPOSED_OK;
	sr_exposed_remove(addr, region->length);
	return true;
}

void sr_regions_record_counts(void)
{
	struct sr_exposed_counts c;
	struct sr_exposed_counts_payload payload;

	if (!sr_regions_on)
		return;
	sr_exposed_get_counts(&c);
	payload = (struct sr_exposed_counts_payload){
	    .faults = c.faults,
	    .loads = c.loads,
	    .polls = c.polls,
	    .snapshots = c.snapshots,
	    .stores = c.stores,
	    .exchanges = c.exchanges,
	    .pass_throughs = c.pass_throughs,
	    .protected_by_change = c.protected_by_change,
	    .ticks = c.ticks,
	    .async_values = c.async_values,
	    .unstable = c.unstable,
	    .jumps = c.jumps,
	    .by_jump = c.by_jump,
	};
	sr_engine_note(&sr_self, SR_REC_EXPOSED_COUNTS, &payload, sizeof(payload));
}
