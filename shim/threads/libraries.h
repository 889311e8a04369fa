/* SPDX-License-Identifier: BSD-2-Clause */
/* libraries.h: finds the code of the verbs libraries. */
#ifndef SHIM_THREADS_LIBRARIES_H
#define SHIM_THREADS_LIBRARIES_H

#include <stdbool.h>

/* Call once, when the process gets its second thread. */
void sr_verbs_libraries_find(void);

/*
 * Does this code belong to libibverbs, librdmacm, a provider or a library that these use?
 * False before the process has threads.
 */
bool sr_is_verbs_library(const void *code);

#endif
