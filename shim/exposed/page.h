/* SPDX-License-Identifier: BSD-2-Clause */
/* page.h: the exposed region module's inside: page states, their table, the lock. */
#ifndef SHIM_EXPOSED_PAGE_H
#define SHIM_EXPOSED_PAGE_H

#include <stdatomic.h>
#include <string.h>

#include "logd/base/page.h"
#include "logd/base/compiler.h"
#include "shim/exposed/x86/vector.h"
#include "shim/exposed/exposed.h"

#define PAGE_MASK (~(PAGE - 1))

/* Open at a time, frozen or live, by one thread: each is compared after each look at memory. */
#define OPEN_MAX  64
#define OPEN_ALL  (4 * OPEN_MAX)

enum page_state {
	PAGE_NONE, /* not a exposed region's */
	PAGE_PROTECTED,
	PAGE_SNAPSHOT,
	PAGE_PASS_THROUGH,
	/*
	 * Closed by another thread's doing than its owner's, who goes on as if it were not,
	 * with a new snapshot, or makes it live again.
	 */
	PAGE_KEPT,
	PAGE_KEPT_PASS_THROUGH,
};

struct pieces;

struct page {
	uint8_t state;
	bool known;        /* the shadow is what the program knows */
	bool async;        /* closed by the tick: what is found next may be late */
	bool silent;       /* live within a call: nobody learns what is there */
	bool digested;     /* was `digest` before any device could write there */
	uint8_t pins;      /* live for the kernel, and not among the open pages */
	uint8_t loads;     /* done one by one since the page was closed */
	uint16_t repeats;  /* ... that a loop has come back to, with nothing new */
	uint32_t users;    /* regions */
	uint32_t whole;    /* ... that have all of it */
	uint32_t aliases;  /* calls under way that were given the backing mapping: it must stay where it is */
	uint32_t owner;    /* who opened it */
	uint64_t epoch;    /* that `loads` is of */
	uint32_t stall_timeout; /* how long a poll of this page waits, in pauses */
	uintptr_t poll_at; /* the last load done by itself: its address ... */
	uintptr_t poll_pc; /* ... and that of its instruction */
	uint64_t digest;
	struct pieces *pieces; /* pieces.c.  NULL: no region has had only a part of it */
};

/* -------------------------------------------------------------- addresses */

/*
 * Where programs have memory, and where its the backing mapping and shadow lie.  Distances
 * are fixed, so that what is contiguous for the program is contiguous for the
 * NIC, whatever regions overlap.
 */
#define BACKING_BASE 0x6c0000000000ul
/*
 * Some pages off: a translation buffer finds an entry by an address's lowest page bits, and
 * the two pages that are always compared with each other would take turns in one.  (An
 * emulated machine's has one entry for each: there a comparison took ten times as long.)
 */
#define SHADOW_BASE  0x740000015000ul

/* What threads stand on on their way to a site's handler (sites.c). */
#define PROBE_STACKS_BASE 0x7d0000000000ul

/* The files of the program's code, once more (code.c). */
#define TEXTS_BASE 0x7d8000000000ul

struct zone {
	uintptr_t begin, end, offset;
};

static const struct zone zones[] = {
    {0x000000000000ul, 0x010000000000ul, 0x000000000000ul}, /* without PIE; Go's heap */
    {0x550000000000ul, 0x580000000000ul, 0x010000000000ul}, /* PIE and brk */
    {0x7e0000000000ul, 0x800000000000ul, 0x040000000000ul}, /* mappings */
    {0x6a0000000000ul, 0x6c0000000000ul, 0x060000000000ul}, /* those that heap.c places */
};

#define ZONES_BYTES 0x080000000000ul
#define NOWHERE     UINTPTR_MAX

NO_VECTORS static inline uintptr_t offset_of(uintptr_t addr)
{
	for (size_t i = 0; i < sizeof(zones) / sizeof(*zones); i++)
		if (addr - zones[i].begin < zones[i].end - zones[i].begin)
			return addr - zones[i].begin + zones[i].offset;
	return NOWHERE;
}

/* What offset_of() has made of it. */
static inline uintptr_t address_at(uintptr_t offset)
{
	for (size_t i = 0; i < sizeof(zones) / sizeof(*zones); i++)
		if (offset - zones[i].offset < zones[i].end - zones[i].begin)
			return offset - zones[i].offset + zones[i].begin;
	return NOWHERE;
}

NO_VECTORS static inline char *shadow_of(uintptr_t addr)
{
	return (char *)(SHADOW_BASE + offset_of(addr));
}

/* The bytes as the NIC has them: a live page is at its view. */
NO_VECTORS static inline char *backing_of(const struct page *p, uintptr_t addr)
{
	return p->state == PAGE_PASS_THROUGH ? (char *)addr : (char *)(BACKING_BASE + offset_of(addr));
}

/* Does none of these bytes lie in the next page? */
NO_VECTORS static inline bool is_in_one_page(uintptr_t addr, size_t n)
{
	return ((addr ^ (addr + n - 1)) & PAGE_MASK) == 0;
}

/* ------------------------------------------------------------------ table */

/* Once.  -errno. */
int page_table_init(void);

/* NULL if no exposed region was ever near: within so many bytes. */
#define CHUNK_BYTES (1ul << 30)

extern struct page *_Atomic *page_chunks;

NO_VECTORS static inline struct page *page_at(uintptr_t addr)
{
	struct page *chunk;

	if (addr >> 47 || !page_chunks)
		return NULL;
	chunk = atomic_load_explicit(&page_chunks[addr / CHUNK_BYTES], memory_order_acquire);
	return chunk ? &chunk[addr % CHUNK_BYTES / PAGE] : NULL;
}

/* Makes the table reach the range.  -ENOMEM. */
int page_table_reach(uintptr_t begin, uintptr_t end);

/* Calls what for each run of exposed pages. */
void page_table_walk(void (*what)(uintptr_t begin, uintptr_t end));

/*
 * What no region has as a whole is also where other things of the program are, and
 * other threads have theirs.  With several threads such a page is never opened: each
 * access is done alone, so that what one thread does is not to be seen in the
 * faults of another.  (Up to a number: a program that computes there is to end.  One that
 * polls looks much more often at the same place.)
 */
#define ALONE_MAX  65536
#define SAME_PLACE 16 /* loads of where the last access was are one access */

NO_VECTORS static inline bool is_partial(const struct page *p);
/* ... without a number: within a call, where faults are not counted. */
NO_VECTORS static inline bool is_shared(const struct page *p);

/* Before a region gets a part of the page.  False: no memory. */
bool pieces_make(struct page *p);
/* What of the range lies in the page is a region's more; or, with a last look, one's less. */
void pieces_add(uintptr_t user, uintptr_t addr, size_t length);
void pieces_remove(uintptr_t user, uintptr_t addr, size_t length);
/* Can they be one's: is each of them some region's? */
bool pieces_have(uintptr_t user, uintptr_t addr, size_t length);
/* Does no region have any of these bytes, that are all in the page? */
bool is_unregistered(const struct page *p, uintptr_t addr, size_t n) NO_VECTORS;
/* Of what is about to be learned, the bytes that no region has: the shadow is given them. */
void pieces_pass_over(uintptr_t addr, const char *now, size_t length);

/* It is no exposed region's any more. */
void page_forget(struct page *p);

/* The open pages' addresses. */
extern uintptr_t open_pages[OPEN_ALL];
extern uint32_t open_n, pass_through_n;
extern _Atomic uint32_t anything_open;
extern struct sr_exposed_counts counts;
extern struct sr_exposed_hooks hooks;
extern uint32_t holds; /* no page goes live */

/* ------------------------------------------------------------------- lock */

/* Loads that a loop without calls comes back to. */
#define RECENT     16

/*
 * Ticks, with nothing done in between, after which a thread is taken to wait; at
 * once if its registers are all what they were at one of them.  (Each 4 ms of CPU time.)
 */
#define STALLS_MAX 25

struct probe;

struct exposed_thread {
	uint64_t epoch; /* of no other thread, and until it makes its next call; 0: none yet */
	bool busy;   /* holds the lock, or is about to */
	bool waits;  /* in the handler, for memory to change */
	uint64_t accesses_n; /* faults so far ... */
	uint64_t armed_accesses; /* ... and when the tick was armed */
	uint32_t stalls;      /* ticks since anything was done */
	uint64_t row_epoch;
	uint32_t row; /* stores in a row ... */
	uintptr_t row_page; /* ... to this page */
	bool silent; /* within a call */
	bool by_jump; /* this fault is none */
	uint64_t fault;
	uint32_t accesses;  /* since its last call, each SAME_PLACE, those of common pages that no region has among them */
	uintptr_t accessed; /* the last one */
	bool armed;
	uint64_t armed_epoch;
	int timer;
	bool has_timer;
	struct {
		uintptr_t pc, addr;
		uint64_t registers;
	} recent[RECENT];
	uint32_t recent_at;
	uint64_t recent_epoch;
	struct {
		uint64_t epoch;
		uintptr_t last;
		uint32_t pages;
	} walk; /* pages frozen one next to the other */
	struct {
		uint64_t epoch, traces, look;
	} polled; /* the last load that was a poll */
	uint64_t ticked[STALLS_MAX]; /* registers at the ticks since anything was done */
	uintptr_t strange_at, strange_pc; /* the last fault that was none of ours */
	uint64_t strange_given_back;      /* how many pages had been given back then */
	struct exchange *exchange;
	uint32_t blind; /* polls by jump while something was open */
	/* sites.c. The words of which a stub knows where they are. */
	struct {
		uint64_t rcx, sp, stack, top, resume;
		bool inside; /* on the way to the handler, in it, or back */
		bool give_up;
		uint32_t guards;
		const struct probe *current;
		uintptr_t addr;
		_Alignas(VECTOR_MAX) char operand[VECTOR_MAX]; /* INSN_OPERAND: what was read */
		char *base;
		ucontext_t uc;
	} probe;
};

extern __thread struct exposed_thread exposed_self SR_INITIAL_EXEC;

NO_VECTORS static inline bool is_shared(const struct page *p)
{
	return !p->whole && hooks.threads && hooks.threads();
}

/* Threads, accesses of this one since its last call: each is the same in record and replay. */
NO_VECTORS static inline bool is_partial(const struct page *p)
{
	return is_shared(p) && exposed_self.accesses < ALONE_MAX * SAME_PLACE;
}

/* When it has been done: what it was taken for does not depend on itself. */
NO_VECTORS static inline void note_access(uintptr_t addr, bool load)
{
	exposed_self.accesses += load && addr == exposed_self.accessed ? 1 : SAME_PLACE;
	exposed_self.accessed = addr;
}

void thread_epoch_begins(void) NO_VECTORS;
void thread_epoch_ends(void);

/*
 * What a thread finds in its epoch is its own affair: other threads' calls, at times that a
 * replay does not repeat, have others.
 */
NO_VECTORS static inline uint64_t thread_epoch(void)
{
	if (!exposed_self.epoch)
		thread_epoch_begins();
	return exposed_self.epoch;
}

static inline uint32_t thread_id(void)
{
	return (uint32_t)(thread_epoch() >> 32);
}

/* But for those that the shim itself needs (shim/signals/signals.h): a fault would kill the process. */
#define BLOCKED (~(1ull << (SIGSEGV - 1) | 1ull << (SIGSYS - 1)))

/*
 * Signals stay blocked while it is held: a handler of the program's may fault.
 * mask is where the thread's own is kept; NULL in the handler, where they are blocked.
 */
void exposed_lock(uint64_t *mask) NO_VECTORS;
void exposed_unlock(const uint64_t *mask) NO_VECTORS;

/* 0: nobody has it; 2: somebody may wait for it. */
extern _Atomic uint32_t exposed_lock_state;
void exposed_wake(void) NO_VECTORS;

/* As with NULL; false: another thread, or this one, has it. */
NO_VECTORS static inline bool exposed_try_lock(void)
{
	uint32_t free = 0;

	if (exposed_self.busy)
		return false;
	exposed_self.busy = true;
	if (!atomic_compare_exchange_strong_explicit(&exposed_lock_state, &free, 1, memory_order_acquire, memory_order_relaxed))
		exposed_self.busy = false;
	return exposed_self.busy;
}

/* What that has got; or as exposed_unlock with NULL. */
NO_VECTORS static inline void exposed_release(void)
{
	if (atomic_exchange_explicit(&exposed_lock_state, 0, memory_order_release) == 2)
		exposed_wake();
	exposed_self.busy = false;
}

/* ----------------------------------------------------------------- states */

/* All with the lock held. */
void page_release(uintptr_t user); /* it is the program's own again */
void page_show_snapshot(uintptr_t user); /* the shadow is complete: shows it */
void page_protect(uintptr_t user);  /* a live page's changes go into the event */
bool page_give(uintptr_t user);  /* becomes live; false: it cannot */
bool page_pass_through(uintptr_t user);
void page_open_silently(uintptr_t user);
/* It is closed, but its owner is not to notice: closed for good, if it is this thread's. */
void page_keep(uintptr_t user);
bool is_mine(const struct page *p);
bool is_snapshot(const struct page *p); /* frozen, if only for its owner */
void page_renew_snapshot(uintptr_t user); /* ... or frozen one */
bool page_reopen(uintptr_t user); /* a live page of this thread's, kept */
void protect_mine(void);
void keep_changed(void); /* others' pages that are not as they were */
void protect_pass_through(void);
void keep_all(void);

/* --------------------------------------------------------------- memory */

/* Is the backing mapping as these bytes?  Each byte of it is looked at once, since it may change meanwhile. */
extern bool has_wide_words; /* AVX2 */
bool is_as(const char *known, const char *backing, size_t n);

/* Stable copy of one page of the backing mapping; false if it never held still. */
bool snapshot(uintptr_t user, char to[PAGE]);

/* After a look at memory at this moment: frozen pages that are not as they were are closed. */
void validate(void);

/* Takes over what differs from the shadow, and puts it into the event. */
void record_difference(uintptr_t addr, const char *now, size_t length, uint32_t flags);

/* First touch: the whole page becomes known. */
void validate_shadow(uintptr_t user, struct page *p);

/*
 * Of a page that is registered for the first time: what is there, the program itself has
 * put there, or was given by calls that are recorded.  Who finds it so later has learned
 * nothing new.
 */
void note_digest(uintptr_t user);

/* A store makes the page differ from its digest: it is compared before. */
void validate_shadow_before_store(uintptr_t addr);

/* The shadow of the range, within a page that is not live, becomes what is there. */
void sample(uintptr_t at, size_t length);

/* ------------------------------------------------------------------ event */

void event_begin(uint64_t fault, uint32_t flags, uintptr_t pc, uintptr_t addr);
void event_value(uintptr_t addr, const void *data, uint32_t length, uint32_t flags);
void event_protected(uintptr_t user);
void event_flag(uint32_t flag);
void event_end(void);

/*
 * Replay: what came with the event that has begun goes to the backing mapping; pages that
 * were closed by it are at the end.  False: nothing came.
 */
bool replay_values(void);
bool replay_flagged(uint32_t flag);
void replay_protected(void);

NO_VECTORS static inline bool is_kept(const struct page *p)
{
	return p->state == PAGE_KEPT || p->state == PAGE_KEPT_PASS_THROUGH;
}

/* Does such an access fault?  (Unless another thread changes it.) */
NO_VECTORS static inline bool fault_needs_handling(const struct page *p, bool write)
{
	return p->state == PAGE_PROTECTED || is_kept(p) || (p->state == PAGE_SNAPSHOT && write);
}

/* Before the backing mapping is unmapped: nobody waits for it to change any more. */
void fault_end_waits(void);

/* A thread that comes back to where it was with the same registers waits for memory to change. */
uint64_t registers_of(const ucontext_t *uc);

void tick_arm(void);
extern bool values_awaited; /* without a page being open */
bool tick_is(const siginfo_t *info);
void tick(const ucontext_t *uc);

#endif
