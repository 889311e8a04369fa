/* SPDX-License-Identifier: BSD-2-Clause */
/* direct.h: direct verbs; their wrappers call sr_direct_call() (call.h). */
#ifndef SHIM_CALLS_DIRECT_H
#define SHIM_CALLS_DIRECT_H

#include <stdbool.h>

#include "shim/core/call.h"

enum sr_direct {
	SR_DIRECT_REFUSE,
	SR_DIRECT_REFUSE_QUIETLY, /* replay: the recording has said it */
	SR_DIRECT_ALLOW,
};

/* Before the first call is captured. */
void sr_direct_set(enum sr_direct what);

/* Is this call of the program's to fail?  Says so, the first time of each function. */
bool sr_direct_refuses(const struct sr_call_desc *d, const uint64_t *a);

/* What a call returns, and does to errno, that is refused. */
uint64_t sr_direct_failure(const struct sr_call_desc *d);

#endif
