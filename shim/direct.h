/* SPDX-License-Identifier: BSD-2-Clause */
/* direct.h: direct verbs; see also sr_direct_refuses() in call.h. */
#ifndef SHIM_DIRECT_H
#define SHIM_DIRECT_H

#include <stdbool.h>

enum sr_direct {
	SR_DIRECT_REFUSE,
	SR_DIRECT_REFUSE_QUIETLY, /* replay: the recording has said it */
	SR_DIRECT_ALLOW,
};

/* Before the first call is captured. */
void sr_direct_set(enum sr_direct what);

#endif
