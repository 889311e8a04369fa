/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probes.h: instructions of the program that fault again and again call the handler by a jump instead.
 *
 * A fault takes 2 us, nine tenths of them in the kernel.  A loop that polls a flag, or fills a message byte by byte,
 * has a few instructions; the one that faults is replaced by a jump to a stub of its own.  The stub asks whether the
 * page is protected and, if so, calls what a fault would have called, with the same registers.  What is counted and
 * recorded is the same: a replay has the faults, and no probes.
 *
 * A jump has five bytes, and may lie over several instructions.  Where one of these begins, the jump has a byte that
 * is itself an instruction which only the kernel may execute: the stub is placed so that the distance to it has such
 * bytes there.  A thread that comes to the middle of the jump, by a branch that nobody knew of or because it was
 * there when the jump was written, faults and goes on in the copy.  Where a branch is seen that leads there, no jump
 * is written.  A jump in whose middle many have faulted is taken back, since faults cost time, and a process without
 * the handler would die of them.
 */
#ifndef SHIM_EXPOSED_PROBE_PROBES_H
#define SHIM_EXPOSED_PROBE_PROBES_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "shim/exposed/x86/decode.h"
#include "shim/exposed/x86/vector.h"

/* What a probe calls. */
struct probe_handlers {
	/* As a fault that is not one: with the registers in uc, at the address of the instruction's operand. */
	void (*fault)(ucontext_t *uc, uintptr_t addr, bool write);
	/*
	 * Before that: a load, comparison or exchange that finds what the program knows already, or a store on which nothing else
	 * depends, is done at once.  What a vector load finds is put into the thread's `operand`, for a copy of the
	 * instruction; what a vector store stores is there already.  False: nothing has been done.  r: the registers by
	 * their numbers.  In general registers only (NO_VECTORS).
	 */
	bool (*quickly)(const struct insn *insn, uintptr_t pc, uintptr_t addr, uint64_t r[16], uint64_t *flags);
	/*
	 * Before that: an access to a word that no region has is done at once.  False: it is not such a word, and nothing has been
	 * done.  In general registers only.
	 */
	bool (*unregistered)(const struct insn *insn, uintptr_t addr, uint64_t registers[16], uint64_t *flags);
	/* A tick that came on the way through a stub (exposed_self.tick_due): the next stub has the program's registers. */
	void (*tick)(const ucontext_t *uc);
};

/* Once. */
void probes_init(const struct probe_handlers *h);

/* Would it not accept a return address that no call has pushed? */
bool has_shadow_stack(void);

/* With the lock held: the instruction has met a protected page, by a fault. */
void probes_count(const ucontext_t *uc, const struct insn *insn);

/* Before a signal is handled: a thread that is in a copy counts as being at the original. */
void probes_enter(ucontext_t *uc);

/* Before the program goes on: an instruction under a jump continues in its copy. */
void probes_leave(ucontext_t *uc);

/* A general protection fault.  True if one of a jump's own bytes raised it: then the thread goes on in the copies. */
bool probes_trapped(ucontext_t *uc);

/*
 * Is the thread on its way to the handler or back, or amidst an instruction's copy?  Then nothing of the program's
 * may begin.
 */
bool probes_is_section(const ucontext_t *uc);

/*
 * The thread is stepping, and in a section.  C code may block SIGTRAP, and a step there would kill the thread; so it goes on without
 * steps from where its flags are saved to where they are given back.
 */
void probes_step_over(ucontext_t *uc);

/*
 * Around a signal's handler of the shim, which calls libc, whose code may have probes: their stubs go on to the
 * copies.  A stub that was interrupted has words in place that another one would overwrite; and the next signal would
 * begin at the upper end of the handlers' stack, which is in use.
 */
struct probes_guard {
	uint64_t rcx, rax;
};

void probes_guard_begin(struct probes_guard *g);
void probes_guard_end(const struct probes_guard *g);
/* The handler does not come to its end, and goes on in the frame of another one. */
void probes_guard_drop(void);

/*
 * A handler of the program's runs next, as soon as this one of the shim's has ended, and may never come back: nothing
 * that it interrupts is within a stub.  Returns how many guards there were besides; they hold again when it has
 * ended.
 */
uint32_t probes_handler_begins(void);
void probes_handler_ends(uint32_t guards);

/*
 * From now on no instruction of the program's is a jump to a stub: a thread may be ended anywhere, or another process is
 * about to use this one's memory and its thread-local words.
 */
void probes_stop(void);

/* Is called at its end, if it is set. */
extern void (*probes_on_stop)(void);

/* The same in a child of fork, which has no handler. */
void probes_stop_in_child(void);

/* The program's instruction at pc, CODE_MAX bytes of it, as it was before anybody wrote into it.  With the lock held. */
const uint8_t *probes_code_at(uintptr_t pc);

/* Maps a stack for the thread, if it has none yet. */
void probes_make_stack(void);

/* Unmaps it when the thread ends. */
void probes_thread_ends(void);

#endif
