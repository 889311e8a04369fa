/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * place_words.h: which words of memory tell a place (places.h): those that the code around it loads and stores.
 *
 * A turn of an interpreter's loop takes more steps than there is time for, so that the word in which it counts is not among
 * them each time.  What changed at earlier places where handlers ran is remembered, and is among the words of later ones.
 *
 * For the thread that steps: one at a time.
 */
#ifndef SHIM_RECORD_PLACE_WORDS_H
#define SHIM_RECORD_PLACE_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/threads/place.h"

/* Once.  False: no memory. */
bool sr_place_words_start(void);

/* The thread begins to step. */
void sr_place_words_begin(void);

/* Its stack pointer is there now; top: its frames end there.  Before each of the functions below. */
void sr_place_words_stack(uint64_t sp, uint64_t top);

/*
 * The instruction at pc comes next, with these registers: touches the words that it loads and stores.  False: these are not
 * known, or there is no room.
 */
bool sr_place_words_instruction(uintptr_t pc, const uint64_t r[16]);
uint32_t sr_place_words_touched(void);
/* Has one of them changed since it was touched first? */
bool sr_place_words_any_changed(void);

/*
 * Fills in the words, those that have changed first.  With the place's stack filled in.  for_signal: a handler runs there.
 * True: one has changed, and it is the first.
 */
bool sr_place_words_take(struct sr_place *place, bool for_signal);

/* Has one of the remembered words changed since the last place where a handler ran?  Then they tell this place from that one. */
bool sr_place_words_progressed(void);

#endif
