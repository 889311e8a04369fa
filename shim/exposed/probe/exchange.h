/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exchange.h: instructions that read memory and write it in one, or only write it in ways of their own.
 *
 * The processor itself executes them, on a copy of the operand, with the program's registers and flags: so both are
 * right afterwards for every instruction.  Then the copy goes to the backing mapping, if the operand there is still
 * what it was; otherwise all begins again.  So what was read is known, and the NIC never sees half of it.
 */
#ifndef SHIM_EXPOSED_PROBE_EXCHANGE_H
#define SHIM_EXPOSED_PROBE_EXCHANGE_H

#include "shim/exposed/x86/decode.h"
#include "shim/exposed/page/thread.h"

/*
 * Calls the code with the general registers of g, but for the stack pointer, and with its flags; puts what they are
 * then back into g.
 */
void sr_exchange_call(greg_t *g, uintptr_t code);

/* With the lock held, within an event.  False if it cannot be done this way: then nothing has been done. */
bool exchange_do(ucontext_t *uc, const struct insn *insn);

/*
 * The same from a probe, with the lock held, of a word of p in which nothing is new to the program: so nothing is recorded.  In
 * general registers only: r by their numbers.  False: it is another word, or somebody changed it meanwhile; nothing has been done.
 */
bool exchange_quickly(const struct insn *insn, const struct page *p, uintptr_t addr, uint64_t r[16], uint64_t *flags) NO_VECTORS;

/* The same with an operand that no region has: nothing is recorded, and the shadow copy gets it, too. */
bool exchange_unregistered(ucontext_t *uc, const struct insn *insn);

#endif
