/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * executed.h: stores from vector, mask and x87 registers that are no plain moves: converted values, some elements of a
 * vector.
 *
 * The processor executes them, on a copy of the operand, with all of the program's registers.  It does so twice, on two
 * different copies: what is the same afterwards has been stored, and only that goes to the backing mapping.
 */
#ifndef SHIM_EXPOSED_PROBE_EXECUTED_H
#define SHIM_EXPOSED_PROBE_EXECUTED_H

#include "shim/exposed/page/parts.h"
#include "shim/exposed/x86/decode.h"

/*
 * INSN_WRITE, wherever its operand lies.  With the lock held, within an event, for a fault.  False if it cannot be done
 * this way: then nothing has been done.
 */
bool executed_store(ucontext_t *uc, const struct insn *insn, enum visibility v);

#endif
