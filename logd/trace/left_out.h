/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * left_out.h: what a trace says of a value that is left out (record --order, SR_LEFT_OUT): its length, and the lowest
 * bytes of its checksum, as many as its data have behind the length.
 */
#ifndef LOGD_TRACE_LEFT_OUT_H
#define LOGD_TRACE_LEFT_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <sreplay/trace.h>

struct sr_left_out {
	uint32_t length;
	uint64_t checksum; /* its lowest bits */
	uint64_t mask;     /* ... which these are */
};

/* So many bytes of the checksum are recorded of messages (8 in older traces), and of READs (2 in older traces). */
#define SR_LEFT_OUT_OF_MESSAGE 1
#define SR_LEFT_OUT_OF_READ    3

#define SR_LEFT_OUT_BYTES(checksum_bytes) (sizeof(uint32_t) + (checksum_bytes))
#define SR_LEFT_OUT_MOST		  SR_LEFT_OUT_BYTES(sizeof(uint64_t))

/* False: these are no such data. */
static inline bool sr_left_out_get(struct sr_left_out *l, const void *data, size_t size)
{
	size_t n = size - sizeof(l->length);

	if (size < sizeof(l->length) || size > SR_LEFT_OUT_MOST)
		return false;
	*l = (struct sr_left_out){.mask = n ? UINT64_MAX >> (64 - 8 * n) : 0};
	memcpy(&l->length, data, sizeof(l->length));
	memcpy(&l->checksum, (const uint8_t *)data + sizeof(l->length), n);
	return true;
}

/* Of what a poll found: did a READ bring it? */
static inline bool sr_left_out_is_of_read(const struct sr_left_out *l)
{
	return l->mask == 0xffff || l->mask == 0xffffff;
}

/* SR_LEFT_OUT_BYTES(checksum_bytes) go to `data`. */
static inline void sr_left_out_put(void *data, uint32_t length, uint64_t checksum, size_t checksum_bytes)
{
	memcpy(data, &length, sizeof(length));
	memcpy((uint8_t *)data + sizeof(length), &checksum, checksum_bytes);
}

#endif
