/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * breakpoint.h: places in the program's code at which a thread is looked at, and may be stopped.
 *
 * A place that a hot loop passes is passed millions of times before the thread is where it is to stop.  So a
 * breakpoint is a jump to a stub, like any probe, which compares one register at once and goes on mostly.  Where no
 * jump can be written, the instruction's first byte becomes one that faults, and the original is executed elsewhere.
 */
#ifndef SHIM_EXPOSED_PROBE_BREAKPOINT_H
#define SHIM_EXPOSED_PROBE_BREAKPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/* What a breakpoint at an instruction can be. */
enum breakpoint_kind { BREAKPOINT_NONE, BREAKPOINT_TRAP, BREAKPOINT_JUMP, BREAKPOINT_ASK_LATER };

/*
 * *length: of the bytes that it changes.  Only code that is as its file has it, or that the program has made and cannot write,
 * is suited.  Takes no lock that waits: while
 * another thread has it, the answer is BREAKPOINT_ASK_LATER.
 */
enum breakpoint_kind breakpoint_suits(uintptr_t pc, unsigned int *length);

struct breakpoint_handlers {
	/* Is this thread to be looked at?  r: its registers by their numbers.  In general registers only (NO_VECTORS). */
	bool (*is_here)(uintptr_t pc, const uint64_t r[16]);
	/*
	 * Then it is.  vectors: registers xmm0 to xmm15.  The thread goes on when this returns; but if it returns true, it is
	 * interrupted first (breakpoints_interrupt_by).
	 */
	bool (*stop)(uintptr_t pc, const uint64_t r[16], const char *vectors);
	/* The program is about to change the code there, and the breakpoint is gone.  May be NULL.  With the module's lock. */
	void (*lost)(uintptr_t pc, bool jump, uint8_t told_by);
};

/* Once.  False: the processor is not suited. */
bool breakpoints_start(const struct breakpoint_handlers *h);

/*
 * Once.  interrupt() is called in a handler of SIGSEGV that has interrupted the program's code at the place.  uc: the program's
 * context there.
 */
void breakpoints_interrupt_by(void (*interrupt)(ucontext_t *uc));

/* What the stub compares: a general register by its number, but not rcx; or a word in memory. */
#define BREAKPOINT_BY_WORD 16

/*
 * From now on threads are looked at there; for ever.  The caller may hold the lock of the exposed regions.  False: not
 * possible.
 */
bool breakpoint_set(uintptr_t pc, bool jump, uint8_t told_by);

/*
 * This thread is to be looked at where it has these registers, and the word this value (NULL: there is none).  told_by: what the
 * breakpoint will compare if it is yet to be set.
 */
void breakpoint_await(uintptr_t pc, uint8_t told_by, const uint64_t r[16], const uint64_t *word, uint64_t value);
void breakpoint_await_none(void);

/*
 * Has a signal interrupted this thread while a breakpoint's stub compares?  Nothing has happened there yet: the thread is at the
 * instruction, and the registers become those that it has there.  Where the stub goes on, they are not known.
 */
bool breakpoint_interrupted(uintptr_t *pc, uint64_t r[16]);

/*
 * A thread that does nothing but accesses by probes is in their stubs whenever a signal looks.  So at its next one it is
 * interrupted as at a breakpoint.  Any thread, for itself.
 */
void breakpoint_interrupt_at_probe(void);

/* A fault: true if it was that of a breakpoint.  Call it before other claims of SIGSEGV. */
bool breakpoint_trapped(ucontext_t *uc);

#endif
