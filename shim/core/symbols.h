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

void *sr_dlsym(void *handle, const char *name);
void *sr_dlvsym(void *handle, const char *name, const char *version);

/* Does the executable or a library other than the shim define it? Calls nothing of libc's. */
bool sr_symbol_is_defined(const char *name);

/* The functions themselves, for code that jumps to them. */
void *sr_real_dlsym(void);
void *sr_real_dlvsym(void);

#endif
