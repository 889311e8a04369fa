/* SPDX-License-Identifier: BSD-2-Clause */
/* code.h: the program's code, as its files have it.  All with the lock held. */
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

/* A part of a file's mapping, and what the file has for it. */
struct text {
	uintptr_t begin, end;
	const uint8_t *file;
	bool is_text; /* may be read and executed, and no more */
};

/*
 * What is at pc, and at least TEXT_NEAR on each side of it, as far as the mapping goes.  False: nothing of a file is
 * there, or the file is gone or shorter.  The bytes stay there until sixteen other parts have been asked for.
 */
bool text_at(uintptr_t pc, struct text *t);

#endif
