/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * arguments.h: encodes a call's arguments, in both engines.
 *
 * What a call of libc or of the kernel is to read or write may be no memory. The kernel refuses such a call (EFAULT), so both
 * runs encode and deliver zeros in place of it.
 */
#ifndef SHIM_CALLS_CODEC_ARGUMENTS_H
#define SHIM_CALLS_CODEC_ARGUMENTS_H

#include <stdbool.h>

#include "shim/core/call.h"
#include "shim/core/codec.h"

/* sr_put_arguments(), for such a call. */
bool sr_put_doubtful_arguments(struct sr_buf *b, const struct sr_call_desc *d, const struct sr_call_codec *codec,
			       const uint64_t *a);

/* False: what the call is to read is no memory, and nothing but the kernel may look at it. */
static inline __attribute__((always_inline)) bool
sr_put_arguments(struct sr_buf *b, const struct sr_call_desc *d, const struct sr_call_codec *codec, const uint64_t *a)
{
	if (__builtin_expect(codec->reads_memory, 0))
		return sr_put_doubtful_arguments(b, d, codec, a);
	if (codec->put_in)
		codec->put_in(b, a);
	return true;
}

/* Encodes and delivers the results of a call that has failed: it may have looked at nothing. */
void sr_put_refused(struct sr_buf *b, const struct sr_call_desc *d, const struct sr_call_codec *codec, const uint64_t *a,
		    uint64_t result);
void sr_deliver_refused(struct sr_cursor *c, const struct sr_call_desc *d, const struct sr_call_codec *codec,
			const uint64_t *a, uint64_t result);

static inline bool sr_is_refused(const struct sr_call_desc *d, uint64_t result)
{
	return __builtin_expect((int64_t)result == -1, 0) &&
	       (d->source == SR_SOURCE_LIBC || d->source == SR_SOURCE_KERNEL);
}

#endif
