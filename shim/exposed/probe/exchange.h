/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exchange.h: instructions that compute with memory, or read and write it in one.
 *
 * The processor itself executes them, on a copy of the operand.  The instruction is written into a stub of the
 * thread's with its operand changed to gs:0, where the copy is.  Behind it stands hlt, which faults.  Then the copy
 * goes to the backing mapping, if the operand there is still what it was; otherwise all begins again.  So registers
 * and flags are right for every instruction, what was read is known, and the NIC never sees half of it.
 *
 * A probe whose instruction only reads needs no fault: it has such a copy of the instruction (probes.c).
 */
#ifndef SHIM_EXPOSED_PROBE_EXCHANGE_H
#define SHIM_EXPOSED_PROBE_EXCHANGE_H

#include "shim/exposed/x86/decode.h"
#include "shim/exposed/page/thread.h"

/* Sends the thread into its stub.  False if it cannot be done this way. */
bool exchange_begin(ucontext_t *uc, const struct insn *insn);

/* The same with an operand that no region has: nothing is recorded, and the shadow copy gets it, too. */
bool exchange_unregistered(ucontext_t *uc, const struct insn *insn);

/* Is this fault the end of this thread's stub? */
bool exchange_ended(const ucontext_t *uc);

/* Is one under way? */
bool exchange_goes_on(void);

/* Has one ended that is not to be recorded? */
bool exchange_is_unseen(void);

/* Is this page one of the stubs'?  It may be written and executed.  False: it is not known. */
bool exchange_has_page(uintptr_t at);

/* With the lock held. */
void exchange_commit(ucontext_t *uc);

#endif
