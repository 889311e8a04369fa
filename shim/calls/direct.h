/* SPDX-License-Identifier: BSD-2-Clause */
/* direct.h: direct verbs; their wrappers call sr_direct_call() (call.h). */
#ifndef SHIM_CALLS_DIRECT_H
#define SHIM_CALLS_DIRECT_H

#include <stdbool.h>

#include "shim/core/call.h"

enum sr_direct {
	SR_DIRECT_REFUSE,
	SR_DIRECT_REFUSE_QUIETLY, /* replay: the recording printed the message */
	SR_DIRECT_ALLOW,
};

/* Called before the first call is captured. */
void sr_direct_set(enum sr_direct what);

/* Must this call of the program fail?  Prints a message, once for each function. */
bool sr_direct_refuses(const struct sr_call_desc *d, const uint64_t *a);

/* The result of a call that is refused; sets errno if the call does. */
uint64_t sr_direct_failure(const struct sr_call_desc *d);

#endif
