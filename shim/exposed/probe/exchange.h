/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exchange.h: instructions that read and write memory in one.
 *
 * The CPU itself does them, on a copy of the operand: the instruction is
 * laid into a stub of the thread's with its operand changed to gs:0, where the
 * copy is.  Behind it stands hlt, which faults; then the copy goes to the backing mapping
 * if the operand is there still what it was, and else all begins again.  So
 * registers and flags are right for every instruction, what was read is known,
 * and the NIC never sees a half of it.
 *
 * Who comes by a jump, and only reads, needs no fault behind it: the site has such a copy of the instruction (sites.c).
 */
#ifndef SHIM_EXPOSED_PROBE_EXCHANGE_H
#define SHIM_EXPOSED_PROBE_EXCHANGE_H

#include "shim/exposed/x86/decode.h"
#include "shim/exposed/page/thread.h"

/* Sends the thread into its stub.  False if it cannot be done this way. */
bool exchange_begin(ucontext_t *uc, const struct insn *insn);

/* The same with an operand that no region has: nobody learns of it, and the shadow is given it too. */
bool exchange_unregistered(ucontext_t *uc, const struct insn *insn);

/* Is this fault the end of this thread's stub? */
bool exchange_ended(const ucontext_t *uc);

/* Is one under way? */
bool exchange_goes_on(void);

/* Of one that has ended: is nobody to learn of it? */
bool exchange_is_unseen(void);

/* With the lock held. */
void exchange_commit(ucontext_t *uc);

#endif
