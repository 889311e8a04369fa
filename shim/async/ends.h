/* SPDX-License-Identifier: BSD-2-Clause */
/* ends.h: what is done before the process ends, in whatever way, while its memory and its descriptors are still there. */
#ifndef SHIM_ASYNC_ENDS_H
#define SHIM_ASYNC_ENDS_H

/* What requests have written to files is brought there; once more does no harm. */
void sr_requests_end(void);

/* The process ends without running what it had registered for its exit: the same, its outputs, and the end of its trace. */
void sr_process_ends(int status, void *site);

#endif
