/* SPDX-License-Identifier: BSD-2-Clause */
/* code.h: the program's code, as its files have it, or as the program has made it.  All with the lock held. */
#ifndef SHIM_EXPOSED_PROBE_CODE_H
#define SHIM_EXPOSED_PROBE_CODE_H

#include <stdbool.h>
#include <stdint.h>

/* An instruction's, and one more. */
#define CODE_MAX 16

/* The instruction's bytes at pc, CODE_MAX of them: those of the file, if a debugger has a breakpoint there. */
const uint8_t *code_at(uintptr_t pc);

/* Branches to a place are mostly of the same function. */
#define TEXT_NEAR (64ul << 10)

/* A part of a mapping, and what the file has for it, or the program has put there. */
struct text {
	uintptr_t begin, end;
	const uint8_t *file;
	bool is_text; /* may be read and executed, and no more */
	bool is_made; /* it is of no file (made_code.h) */
};

/*
 * What is at pc, and at least TEXT_NEAR on each side of it, as far as the mapping goes.  False: neither a file nor code that the
 * program has made is there, or the file is gone or shorter.  The bytes stay there until sixteen other parts have been asked
 * for, or text_changes() is called.
 */
bool text_at(uintptr_t pc, struct text *t);

/* From here on text_at() knows code that the program has made, too. */
void text_take_made_code(void);
/* But not between these two, which any thread calls without the lock.  Has any been asked for? */
bool text_change_begins(void);
void text_change_ends(void);
/* Has made code been asked for in this range?  It is forgotten: it is about to change. */
bool text_changes(uintptr_t begin, uintptr_t end);

#endif
