/* SPDX-License-Identifier: BSD-2-Clause */
/* code.h: the program's code, as it was before anybody wrote into it.  All with the lock held. */
#ifndef SHIM_WINDOW_CODE_H
#define SHIM_WINDOW_CODE_H

#include <stdbool.h>
#include <stdint.h>

/* An instruction's, and one more. */
#define CODE_MAX 16

/* The instruction's bytes at pc, CODE_MAX of them, as they are in the program. */
const uint8_t *code_at(uintptr_t pc);

/* Code that may be read and executed, and no more, and what its file has for it. */
struct text {
	uintptr_t begin, end;
	const uint8_t *file;
};

/*
 * False: pc is not in such a mapping of a file's, or the file is not there or not as long.
 * The file's bytes stay there till sixteen other mappings have been asked for.
 */
bool text_at(uintptr_t pc, struct text *t);

#endif
