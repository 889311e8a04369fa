/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * aside.h: instructions that compute with memory and leave it as it is.
 *
 * The processor itself executes them, on a copy of the operand, so that registers and flags are right for every
 * instruction.  The instruction is written into a stub of the thread's with its operand changed to gs:0, where the
 * copy is, and the thread is sent there, since its vector registers are there only.  Behind the instruction stands
 * hlt, which faults: then the thread goes on behind the original.
 *
 * A probe needs no fault: it has such a copy of the instruction (probes.c).
 *
 * An instruction that is not decoded and stores to exposed memory is executed there as it is, while the pages that it
 * needs are passed through.  They are found by its faults: at each of them it begins anew, as on a processor.
 */
#ifndef SHIM_EXPOSED_PROBE_ASIDE_H
#define SHIM_EXPOSED_PROBE_ASIDE_H

#include "shim/exposed/x86/decode.h"
#include "shim/exposed/page/thread.h"

/* Sends the thread into its stub.  unseen: nothing is recorded.  False if it cannot be done this way. */
bool aside_begin(ucontext_t *uc, const struct insn *insn, bool unseen);

/*
 * The instruction at pc, which stores and is not decoded, has met this page, which is passed through for it from here on; 0: it
 * may stay so.
 */
void aside_opens(uintptr_t pc, uintptr_t user);

/* The same of a page that is lent, of which it is shown a copy (apart.h).  False: that is not possible. */
bool aside_shows(uintptr_t pc, uintptr_t user);
/* Before a call: one that has not come to its end is not executed any more. */
void aside_gives_up(void);

/*
 * Has the instruction at pc met a page, and not ended?  Then it needs all of them to be passed through at once, those that it
 * loads from as well: a snapshot of one would protect the other.
 */
bool aside_has_begun(uintptr_t pc);

/* Behind a fault: if that is so, the thread goes into the stub.  Where the instruction cannot be copied, its pages stay open. */
void aside_go_on(ucontext_t *uc);

/* Before a fault: if it is the stub's of such an instruction, the thread is back at the original. */
void aside_step_back(ucontext_t *uc);

/* Is this fault the end of this thread's stub? */
bool aside_ended(const ucontext_t *uc);

/* Is the thread in it? */
bool aside_goes_on(void);

/* The thread goes on behind the original. */
void aside_end(ucontext_t *uc);

/* Only writes an instruction whose operand is the thread's `operand`, and ret.  Where it is; 0: not possible. */
uintptr_t aside_write(const uint8_t *code, const struct insn *insn);

/* Is this page one of the stubs'?  It may be written and executed.  False: it is not known. */
bool aside_has_page(uintptr_t at);

#endif
