/* SPDX-License-Identifier: BSD-2-Clause */
/* sums_state.h: a thread's sums of checksums: see sums.h. */
#ifndef SHIM_CORE_SUMS_STATE_H
#define SHIM_CORE_SUMS_STATE_H

#include <stdint.h>

/* An event is a request, a completion, or a value that is left out. */
#define SR_CHECK_EVENTS 256

struct sr_sums {
	uint64_t sent, received;
	uint64_t events; /* since the last record */
	uint64_t checked_sn; /* replay: the call with the last record */
};

#endif
