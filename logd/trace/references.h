/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * references.h: makes records whole that refer to earlier bytes of their stream (SR_RECORD_REFERS).
 *
 * For read_stream.c; one thread at a time for each stream.
 */
#ifndef LOGD_TRACE_REFERENCES_H
#define LOGD_TRACE_REFERENCES_H

#include <stdint.h>

struct sr_stream;

/*
 * s->entry is such a record, in all its pieces, which begins at `position` of the ring: makes its
 * payload whole.  1; -errno: the stream's warning says why.
 */
int sr_references_resolve(struct sr_stream *s, uint64_t position);

void sr_references_free(struct sr_stream *s);

#endif
