/* SPDX-License-Identifier: BSD-2-Clause */
/* real.h: the libraries behind the wrappers. */
#ifndef SHIM_REAL_H
#define SHIM_REAL_H

/* A handle on libibverbs, or NULL while the process has not loaded it. */
void *sr_libibverbs(void);

#endif
