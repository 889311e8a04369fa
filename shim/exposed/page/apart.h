/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * apart.h: pages that one instruction, which cannot be done in place, needs where it has its operand, while calls have them in the
 * backing mapping, from where they must not be moved (lend.c).  At the program's address it is shown copies; what it has changed
 * there is put into the backing mapping behind it.
 *
 * All with the lock held.
 */
#ifndef SHIM_EXPOSED_PAGE_APART_H
#define SHIM_EXPOSED_PAGE_APART_H

#include <stdbool.h>
#include <stdint.h>

struct apart {
	uintptr_t user;
	char *was; /* what the copy held at first */
};

/* Of a page that is protected, or suspended while it was passed through, and stays so.  It is not moved until apart_end().  False: there is no memory. */
bool apart_begin(uintptr_t user, struct apart *a);

/* keep: what was changed in the copy is stored; otherwise it is forgotten.  The page is protected as before. */
void apart_end(const struct apart *a, bool keep);

#endif
