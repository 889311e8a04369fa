/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * large.h: arrays that may grow to gigabytes.
 *
 * realloc() moves what is large to another place, page by page, and each page that was moved is a fault once more when it is
 * touched: with the faults of a virtual machine that took half of the time.  Here an array is a mapping of its own from
 * SR_LARGE bytes on, in huge pages, with free addresses behind it.
 */
#ifndef REPLAY_ANALYSIS_LOG_LARGE_H
#define REPLAY_ANALYSIS_LOG_LARGE_H

#include <stddef.h>

#define SR_LARGE (2u << 20)

/*
 * All arrays together have so many bytes of memory, about; what is beyond that lies in a file (spill.h).  To be called before
 * there are any.  System calls must not be given what is in them.
 */
void sr_large_limit(size_t bytes);

/* As sr_grow() (grow.h); given back by sr_large_free(). */
void *sr_large_grow(void **list, size_t n, size_t *room, size_t size);
/* Room for n elements, not set; NULL: no memory. */
void *sr_large_make(size_t n, size_t size);
void *sr_large_zeroed(size_t n, size_t size);
/* list: NULL, or an array with room for `room` elements. */
void sr_large_free(void *list, size_t room, size_t size);

#endif
