/* SPDX-License-Identifier: BSD-2-Clause */
/* libraries.h: finds the code of the verbs libraries, and keeps it loaded. */
#ifndef SHIM_THREADS_LIBRARIES_H
#define SHIM_THREADS_LIBRARIES_H

#include <stdbool.h>

/* Call once, when the process gets its second thread. */
void sr_verbs_libraries_find(void);

/*
 * Does this code, or this variable, belong to libibverbs, librdmacm, a provider or a library that these use?
 * False before the process has threads.
 */
bool sr_is_verbs_library(const void *place);

/*
 * Call before a library may be unloaded. A provider that libibverbs has loaded for a device keeps libibverbs for ever, and
 * a replay loads no provider. So both keep what is loaded of libibverbs and librdmacm, as on a machine with a card.
 */
void sr_verbs_libraries_keep(void);

#endif
