/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * places.h: stops a thread that makes no call at a place that a replay finds again: to let others run, or to run a handler.
 *
 * Another thread, which waits for the token, sends it a signal (core/run_token.c).  From there the thread goes on
 * step by step for a moment: until it has come back to the instruction where it was, or for some dozen instructions.
 * So it is known what the code around does: which registers it changes, and what it loads and stores.  A loop that
 * comes back with the same registers and the same memory only waits, and any of its turns is the place.  Otherwise
 * the registers and those words in memory tell one turn from another.  Then the thread stops at an instruction that a
 * replay can make a breakpoint of (exposed/probe/breakpoint.h), describes the place in a record, gives the token away,
 * and goes on when it has the token again.
 *
 * A signal that comes to a thread in the program's code, and has waited for a call in vain (signals/waiting.c), makes it
 * look for a place in the same way.  There its handler runs.
 *
 * A thread that is at work in the shim does not stop; it is asked again.  One that computes where there is no such
 * instruction, in code that is in no file for example, is overtaken: then both run at the same time.
 */
#ifndef SHIM_RECORD_PLACES_H
#define SHIM_RECORD_PLACES_H

#include <stdbool.h>

/*
 * Once, before there is a second thread.  in_turns: threads run one at a time.  may_part: but where they compute, they do so at
 * the same time (core/phases.h).
 */
void sr_places_record(bool in_turns, bool may_part);

#endif
