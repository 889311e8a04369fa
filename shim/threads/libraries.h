/* SPDX-License-Identifier: BSD-2-Clause */
/* libraries.h: where the code of the verbs libraries is. */
#ifndef SHIM_THREADS_LIBRARIES_H
#define SHIM_THREADS_LIBRARIES_H

#include <stdbool.h>

/* Once, when the process gets its second thread. */
void sr_verbs_libraries_find(void);

/*
 * Is this code of libibverbs, librdmacm, a provider or what these use?  False before the
 * process has threads.
 */
bool sr_is_verbs_library(const void *code);

#endif
