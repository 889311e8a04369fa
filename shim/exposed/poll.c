/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * poll.c: a load that comes again and again at one place is a poll, by a loop that waits for a message.
 *
 * It must see each change.  While nothing has changed it waits here a little, which is cheaper than to fault again.
 */
#include "shim/exposed/access.h"
#include "shim/exposed/page/lock.h"
#include "shim/exposed/page/pieces.h"
#include "shim/exposed/page/wait.h"
#include "shim/exposed/probe/breakpoint.h"
#include "shim/exposed/probe/probes.h"
#include "shim/exposed/x86/word.h"

/* In pause instructions: as long as it takes to come back, by a fault or by a probe; and the longest wait. */
#define POLL_WAIT_FAULT 64
#define POLL_WAIT_JUMP  8
#define POLL_WAIT_MAX   16384

/*
 * How long the next wait may be.  After a wait that paid it is longer, after one in vain shorter.  A thread that
 * seems to spin waits at least as long as coming back takes, which at worst doubles what the fault costs: a task may
 * leave all registers as they were, too.
 */
NO_VECTORS static uint32_t next_poll_wait(uint32_t pauses, bool changed, bool spins)
{
	uint32_t back = exposed_self.probe.inside ? POLL_WAIT_JUMP : POLL_WAIT_FAULT, least = spins ? back : back / 4;

	if (changed)
		return pauses * 2 < POLL_WAIT_MAX ? pauses * 2 : POLL_WAIT_MAX;
	return pauses / 2 > least ? pauses / 2 : least;
}

NO_VECTORS bool is_poll(const struct page *p, uintptr_t pc, uintptr_t addr)
{
	return p->poll_at == addr && p->poll_pc == pc;
}

NO_VECTORS void note_alone(struct page *p, uintptr_t pc, uintptr_t addr)
{
	p->poll_at = addr;
	p->poll_pc = pc;
}

static void read_registers(const ucontext_t *uc, uint64_t r[16])
{
	for (uint8_t i = 0; i < 16; i++)
		r[i] = (uint64_t)*decode_register((ucontext_t *)uc, i);
}

/*
 * Calls that have returned leave bytes behind below the stack pointer.  So many of them are looked at, in the page
 * that is mapped for sure.
 */
#define LEFT_BYTES 512

/* Four sums side by side, since a chain of additions took half of the time of an access. */
NO_VECTORS static uint64_t hash_words(const volatile uint64_t *p, const volatile uint64_t *end, uint64_t hash)
{
	uint64_t a = hash, b = 0, c = 0, d = 0;

	for (; end - p >= 4; p += 4) {
		a = a * 5 + p[0];
		b = b * 5 + p[1];
		c = c * 5 + p[2];
		d = d * 5 + p[3];
	}
	for (; p < end; p++)
		a = a * 5 + *p;
	return ((a * WORD_MIX + b) * WORD_MIX + c) * WORD_MIX + d;
}

/* A hash of the bytes below the stack pointer. */
NO_VECTORS static uint64_t left_below(uintptr_t sp)
{
	uintptr_t end = sp & ~(uintptr_t)7, begin = end - LEFT_BYTES;
	const struct page *p = page_at(end);

	if (p && p->state != PAGE_NONE)
		return 0;
	if (begin < (end & PAGE_MASK))
		begin = end & PAGE_MASK;
	return hash_words((const volatile uint64_t *)begin, (const volatile uint64_t *)end, 0);
}

/*
 * Delays a load that polls, until it has something new to see or has waited long enough.  Other threads must be able to go on
 * meanwhile, so the lock is released.
 *
 * spins: the thread has done nothing but this load for a while, so that waiting, which is cheaper than
 * coming back, delays nothing else.
 */
NO_VECTORS static bool await_change(struct page *p, uintptr_t addr, unsigned int size, bool spins)
{
	const char *at = backing_of(p, addr);
	uint64_t known = word_load(shadow_of(addr), size);
	uint32_t pauses = p->poll_pauses ? p->poll_pauses : POLL_WAIT_JUMP;
	bool changed;

	if (word_load(at, size) != known)
		return false;
	changed = wait_for_change(at, size, known, pauses);
	if (p->state != PAGE_NONE)
		p->poll_pauses = next_poll_wait(pauses, changed, spins);
	return true;
}

enum wait {
	NO_WAIT,
	WAIT,  /* the poll is the first one after a call, or leaves the same traces as the one before */
	SPINS, /* ... and the thread has accessed nothing else in between */
};

/*
 * A thread that has come back with other traces again and again works, and most likely goes on with that: so many of its
 * polls are not looked at then, which would take as long as the rest of the access.  If it begins to wait meanwhile, it comes
 * here so many times more.
 */
#define UNLOOKED_MAX 63

NO_VECTORS static void note_work(struct exposed_thread *t, bool works)
{
	t->polled.works = !works ? 0 : t->polled.works < UNLOOKED_MAX ? 2 * t->polled.works + 1 : UNLOOKED_MAX;
	t->polled.unlooked = t->polled.works / 2;
}

/*
 * A thread that comes back with other traces has done something in between, a task for example, and has more to do.
 * It must not be delayed.  A task may leave the registers as they were, if its loop keeps everything in memory; so if
 * they are the same, what is below the stack pointer is looked at, too.
 *
 * access: the number of this one.
 */
NO_VECTORS static enum wait is_waiting(uintptr_t pc, const uint64_t r[16], uint64_t access)
{
	struct exposed_thread *t = &exposed_self;
	uint64_t registers, left = 0;
	bool first = t->polled.epoch != thread_epoch(), same;
	enum wait wait = first ? WAIT : NO_WAIT;

	if (!first && t->polled.unlooked) {
		t->polled.unlooked--;
		return NO_WAIT;
	}
	registers = word_registers(r, pc);
	same = !first && t->polled.registers == registers;
	if (same) {
		left = left_below(r[REGISTER_SP]);
		if (t->polled.has_left && t->polled.left == left)
			wait = t->polled.access + 1 == access ? SPINS : WAIT;
	}
	note_work(t, !first && (!same || (t->polled.has_left && wait == NO_WAIT)));
	t->polled.epoch = thread_epoch();
	t->polled.registers = registers;
	t->polled.has_left = same;
	t->polled.left = left;
	t->polled.access = access;
	return wait;
}

NO_VECTORS bool wait_at_poll(struct page *p, const struct poll *poll)
{
	enum wait wait = is_waiting(poll->pc, poll->r, poll->access);

	return wait != NO_WAIT && await_change(p, poll->addr, poll->size, wait == SPINS);
}

bool wait_at_fault(const ucontext_t *uc, struct page *p, const struct insn *insn)
{
	struct poll poll = {
	    .pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP],
	    .addr = insn->address,
	    .size = insn->size,
	    .access = exposed_self.accesses_n,
	};
	uint64_t r[16];

	if (!is_poll(p, poll.pc, poll.addr))
		return false;
	read_registers(uc, r);
	poll.r = r;
	return wait_at_poll(p, &poll);
}

uint64_t registers_of(const ucontext_t *uc)
{
	uintptr_t pc = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
	uint64_t r[16];

	read_registers(uc, r);
	breakpoint_interrupted(&pc, r);
	return word_registers(r, pc);
}
