/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * made_code.h: code that the program itself has made, as compilers at run time do (LLVM's in numba, Julia and databases).
 *
 * It is as good as a file's as long as it may be executed and not written: whoever changes it must make it writable first, by
 * a call.  Before that call the program's own bytes are put back everywhere in it.  Code that may be written and executed at
 * once is left alone.
 */
#ifndef SHIM_EXPOSED_PROBE_MADE_CODE_H
#define SHIM_EXPOSED_PROBE_MADE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/exposed/x86/relocate.h"

/* From here on all calls that change mappings are seen; without them made code has no probes.  Once. */
void made_code_follow(void);

/*
 * Around a call of the program's that changes what may be done to this memory.  Any thread, without the lock.  In between, no
 * made code becomes a probe.
 */
void made_code_changes(const void *addr, size_t size);
void made_code_changed(void);
/* Before memory is unmapped, or its content is dropped. */
void made_code_ends(const void *addr, size_t size);

/*
 * Has none of these instructions an address in it?  A collector of garbage may read those in code that it may not write, and
 * change them where it knows them to be, but not in a copy.
 */
bool made_code_can_be_copied(const uint8_t *code, const struct group *g);

#endif
