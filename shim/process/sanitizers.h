/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sanitizers.h: programs that are compiled with -fsanitize=address, thread, memory or leak. The runtime of these wants to be the
 * first library of the process, has functions of the names of the shim's, and places memory by itself: such a program is
 * not recorded.
 */
#ifndef SHIM_PROCESS_SANITIZERS_H
#define SHIM_PROCESS_SANITIZERS_H

#include <stdbool.h>

/* What the program is compiled with ("address"), or NULL. Calls nothing of libc's, nor does the other function. */
const char *sr_sanitizer(void);

/*
 * Says that the program is not recorded, if it was to be, and executes it again without the shim; or ends it, if it must be
 * recorded. Returns if it cannot be executed again.
 */
void sr_sanitizer_evade(const char *sanitizer, const char *program, bool must_be_recorded);

#endif
