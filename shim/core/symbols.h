/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * symbols.h: glibc's dlsym and dlvsym, for the shim's own use. Under their own names the
 * shim would call its wrappers (lookup.c), which answer for the program.
 *
 * RTLD_NEXT means what follows libsreplay_verbs.so. Any thread may call these at any time,
 * even while the process is still being loaded.
 */
#ifndef SHIM_CORE_SYMBOLS_H
#define SHIM_CORE_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

void *sr_dlsym(void *handle, const char *name);
void *sr_dlvsym(void *handle, const char *name, const char *version);

/*
 * Where the executable or the first library other than the shim defines it, and its bytes.  NULL: nowhere.  Calls nothing of
 * libc's, so that it may be called while ld.so relocates the process.
 */
void *sr_symbol_find(const char *name, size_t *size);
bool sr_symbol_is_defined(const char *name);

/* The same in ld.so alone.  An executable that names one of its variables has a copy, which is empty as long as ld.so relocates. */
void *sr_symbol_of_loader(const char *name);

/* The functions themselves, for code that jumps to them. */
void *sr_real_dlsym(void);
void *sr_real_dlvsym(void);

#endif
