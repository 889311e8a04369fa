/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * symbols.h: glibc's dlsym and dlvsym, for the shim's own use.  By those names the shim would
 * call its own wrappers (lookup.c), which answer for the program.
 *
 * RTLD_NEXT means what follows libsreplay_verbs.so.  Callable in any thread at any time, even
 * while the process is still being loaded.
 */
#ifndef SHIM_CORE_SYMBOLS_H
#define SHIM_CORE_SYMBOLS_H

void *sr_dlsym(void *handle, const char *name);
void *sr_dlvsym(void *handle, const char *name, const char *version);

/* The functions themselves, to be jumped to. */
void *sr_real_dlsym(void);
void *sr_real_dlvsym(void);

#endif
