/* SPDX-License-Identifier: BSD-2-Clause */
/* access.h: what the handler does for an instruction that has faulted.  All with the lock held. */
#ifndef SHIM_EXPOSED_ACCESS_H
#define SHIM_EXPOSED_ACCESS_H

#include "shim/exposed/page/thread.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/decode.h"

static inline bool is_within(const struct insn *insn)
{
	return is_in_one_page(insn->address, insn->size);
}

/* Does it put what it loads into a register, or the flags? */
NO_VECTORS static inline bool is_register_load(const struct insn *insn)
{
	return insn->class == INSN_LOAD || insn->class == INSN_COMPARE;
}

NO_VECTORS static inline bool is_word(const struct insn *insn)
{
	return is_register_load(insn) || insn->class == INSN_CALL || insn->class == INSN_JUMP;
}

NO_VECTORS static inline bool is_store(const struct insn *insn)
{
	return insn->class == INSN_STORE || insn->class == INSN_VECTOR_STORE;
}

/* xchg is atomic without a prefix. */
NO_VECTORS static inline bool is_atomic(const struct insn *insn)
{
	const struct encoding *e = &insn->encoding;

	return insn->class == INSN_EXCHANGE && (e->lock || (!e->map && (e->opcode == 0x86 || e->opcode == 0x87)));
}

static inline bool writes(const struct insn *insn)
{
	return is_store(insn) || insn->class == INSN_EXCHANGE || insn->class == INSN_WRITE;
}

/* May its operand lie over two pages, and the handler does it all the same? */
static inline bool can_be_parted(const struct insn *insn)
{
	return is_word(insn) || insn->class == INSN_VECTOR_LOAD || writes(insn);
}

/* watch.c: see sr_exposed_watch_load(). */
bool is_watched_load(const ucontext_t *uc, uintptr_t addr);
bool is_watched_page(uintptr_t addr) NO_VECTORS;
void watched_load_begins(const ucontext_t *uc, uintptr_t addr);
void watched_load_ends(uintptr_t addr);

/* region.c: the page becomes the program's own, with what is there now. */
void page_give_up(uintptr_t user);

/* stack.c: see sr_exposed_give_up_stack(). */
void stack_give_up(uintptr_t sp);

/* load.c */
void fault_load(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn);
/* Does the load, as the backing mapping has it; now: the bytes. */
void do_load(ucontext_t *uc, struct page *p, const struct insn *insn, char now[VECTOR_MAX]);
void load_alone(ucontext_t *uc, struct page *p, const struct insn *insn);
/* is_word(): v has been read. */
void finish_load(ucontext_t *uc, const struct insn *insn, uint64_t v);
/* The counters of a page are of one epoch. */
void renew(struct page *p) NO_VECTORS;
/* Recording: what the handler does alone before it takes a snapshot.  Together it costs as much as that. */
#define LOADS_MAX     48
#define LOAD_BY_FAULT 16
#define LOAD_BY_JUMP  1
/* So many loads by a jump bring nothing but their own values. */
#define LOADS_EXACT   3
/* A loop that waits must see each change; one that only computes must get on. */
#define REPEATS_MAX 4096

/*
 * Recording: does the thread load and store by turns, on a page that will not be passed through?  Then a snapshot costs more
 * than it saves, as each store compares all snapshots.
 */
bool is_by_turns(const struct page *p) NO_VECTORS;

enum back {
	NOT_BACK,
	BACK,      /* this load has been done lately, with no call since */
	BACK_SAME, /* ... with all registers as they are now */
};

/* registers: a hash of them. */
enum back comes_back(uintptr_t pc, uintptr_t addr, uint64_t registers) NO_VECTORS;
void note_back(uintptr_t pc, uintptr_t addr, uint64_t registers) NO_VECTORS;
/* Has the thread walked over neighbouring pages, with no call in between, and is this the next? */
bool is_walk(uintptr_t user) NO_VECTORS;
#define WALK_MIN 8
/* Pages that change their state at once, at most: half of those that a thread may have open. */
#define PAGES_AT_ONCE (OPEN_MAX / 2)
/* Records what is new on them, as it is at one moment.  False: they did not hold still. */
bool sample_pages(uintptr_t begin, uintptr_t end);

/* poll.c */
/* Is it the instruction and address of the last load that was done alone on this page? */
bool is_poll(const struct page *p, uintptr_t pc, uintptr_t addr) NO_VECTORS;
void note_alone(struct page *p, uintptr_t pc, uintptr_t addr) NO_VECTORS;
/* A load that is_poll(): the thread's registers by their numbers; the how manieth of its accesses it is. */
struct poll {
	uintptr_t pc, addr;
	unsigned int size;
	const uint64_t *r;
	uint64_t access;
};

/* Waits a little if the thread seems to wait, without the lock.  True: the page's state may have changed. */
bool wait_at_poll(struct page *p, const struct poll *poll) NO_VECTORS;
/* The same of any load. */
bool wait_at_fault(const ucontext_t *uc, struct page *p, const struct insn *insn);
/* A hash of the registers.  A thread that comes back with the same ones may be waiting for memory to change. */
uint64_t registers_of(const ucontext_t *uc);

/* quick.c */
bool fault_quickly_at_probe(const struct insn *insn, uintptr_t pc, uintptr_t addr, uint64_t r[16], uint64_t *flags) NO_VECTORS;

/* store.c */
/* Stores in a row before the page is passed through: together they cost as much as that. */
#define STORES_MAX 16
/* How many there have been to this page. */
uint32_t stores_in_a_row(uintptr_t page) NO_VECTORS;
/* One more. */
void note_row(uintptr_t page) NO_VECTORS;
/* Recording: is the page to be passed through for the stores in a row that it has had? */
bool is_row_due(uintptr_t page) NO_VECTORS;
void fault_store(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn);
/* False: the frame does not have the register.  v: what is stored. */
bool do_store(ucontext_t *uc, struct page *p, const struct insn *insn, char v[VECTOR_MAX]);
bool store_alone(ucontext_t *uc, struct page *p, const struct insn *insn);

/* fill.c */
/* May no value of a peer be waited for there, as far as the page's past shows? */
bool may_be_filled(const struct page *p) NO_VECTORS;
/* A thread fills the page.  Counts once an epoch; loads before it were not in vain. */
void count_fill(struct page *p) NO_VECTORS;
/* Recording: is the page the next one of those that the thread fills one after the other? */
bool is_filled_on(uintptr_t user) NO_VECTORS;
/* Did the thread fill the page before this one, or a part of this one? */
bool is_fill_next(uintptr_t user);
/* Is it to be passed through, whatever the access?  In a replay, if the trace says so. */
bool is_fill_due(uintptr_t user);
/*
 * Passes through this page, which insn met, and those behind it that will be filled next.  False: not now.  Then the
 * instruction faults again, and is not counted; but a recording does it in another way if the page was due.
 */
bool fill_pages(uintptr_t user, const struct insn *insn);

/* string.c */
void fault_string(ucontext_t *uc, const struct insn *insn);
/* Has no region any byte of its next piece?  Then that is done, and not counted. */
bool string_is_unregistered(const ucontext_t *uc, const struct insn *insn);
void string_do_unregistered(ucontext_t *uc, const struct insn *insn);

/*
 * silent.c: within a call, the access at addr is done as if the page were open, and nothing is recorded.  False: it cannot be done
 * in place.
 */
bool do_silently(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn, bool write);
/* The same outside of a call, of an access that has no number. */
bool do_unseen(ucontext_t *uc, uintptr_t addr, struct page *p, const struct insn *insn, bool write);

/* parts.c: an instruction that can_be_parted().  False: it cannot be done, and nothing has been done. */
bool do_parts(ucontext_t *uc, const struct insn *insn);

/* unregistered.c */
/* True if no region has any byte of the operand, and the access is done. */
bool is_done_unregistered(ucontext_t *uc, struct page *p, const struct insn *insn);
bool fault_unregistered_at_probe(const struct insn *insn, uintptr_t addr, uint64_t registers[16], uint64_t *flags);

/* fault.c: what a probe calls instead of a fault. */
extern const struct probe_handlers fault_probe_handlers;

/* tick.c */
void tick(const ucontext_t *uc);
void tick_at_probe(const ucontext_t *uc);
/* So many have come since the thread's last access or call. */
uint32_t ticks_since_access(void);
extern bool values_awaited; /* values are to come although no page is open */
/* Replay: ticks look for what another process has written, if that comes next, and the thread may wait for it. */
void tick_await(void);

#endif
