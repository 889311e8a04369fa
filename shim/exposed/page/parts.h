/* SPDX-License-Identifier: BSD-2-Clause */
/* parts.h: operands that may lie over two pages, either of which may be exposed or not. */
#ifndef SHIM_EXPOSED_PAGE_PARTS_H
#define SHIM_EXPOSED_PAGE_PARTS_H

#include <stddef.h>
#include <stdint.h>

#include "shim/exposed/page/thread.h"

/* What an instruction that is done for the program is to the recording. */
enum visibility {
	SEEN,         /* the program learns what it found */
	UNSEEN,       /* within a call: nothing is recorded */
	UNREGISTERED, /* the program's own memory */
};

static inline enum visibility visibility_now(void)
{
	return exposed_self.silent ? UNSEEN : SEEN;
}

/* Copies them to `to`. */
void parts_load(uintptr_t addr, char *to, size_t n, enum visibility v);

/* Puts them from `from`; written: a byte for each of them that is not 0 if it is to be put, or NULL: all are. */
void parts_store(uintptr_t addr, const char *from, const char *written, size_t n, enum visibility v);

#endif
