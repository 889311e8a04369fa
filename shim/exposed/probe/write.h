/* SPDX-License-Identifier: BSD-2-Clause */
/* write.h: writes into code that other threads may be executing. */
#ifndef SHIM_EXPOSED_PROBE_WRITE_H
#define SHIM_EXPOSED_PROBE_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The process's memory as a file.  It can be written where no mapping may be, and no mapping is changed; what is not
 * mapped is an error, not a fault.  -errno.
 */
int code_open(void);

bool code_put(int memory, uintptr_t at, const uint8_t *bytes, size_t n);

/* Puts the original bytes of all probes into a copy of n bytes of the code at `from`.  With the module's lock. */
void probes_originals(uintptr_t from, uint8_t *code, size_t n);

/* After it all threads have executed what they had fetched of the old bytes, and fetch anew.  False: not possible. */
bool code_fetch_anew(void);

#endif
