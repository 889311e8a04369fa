/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * shapes.h: which records of a frame are alike.
 *
 * Records of the same kind, flags and size have the same fields.  Fields with few values in them, such as the queue pair and what
 * it is asked to do, make several shapes of them: what depends on these is then equal in all records of a shape, and the order
 * of the shapes says what happened.  For the encoder; a decoder is told the shapes.
 */
#ifndef LOGD_TRACE_SHAPES_H
#define LOGD_TRACE_SHAPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/layouts.h"

/* A frame with more is no better for columns. */
#define SR_SHAPES_MAX 4096

struct sr_shape {
	uint16_t kind, flags;
	uint32_t size;
	uint32_t count;
	uint32_t first; /* index in `payloads` of the first one */
	uint32_t differ; /* in `differ`: the bits in which payloads differ from the first one, in words of 64, up to DIFFER_MOST */
};

struct sr_shapes {
	unsigned char *copy; /* of the records */
	uint32_t n;	     /* records */
	uint16_t *shape_of;  /* of each record */
	uint32_t *payloads;  /* where they are in the copy, by shape */
	struct sr_shape shapes[SR_SHAPES_MAX];
	uint32_t shapes_n;
	uint64_t *differ;
	uint32_t *at; /* where each record is */
	struct sr_splitter *splitter;
};

/* For frames of up to `most` bytes.  False: no memory; sr_shapes_end is to be called anyway. */
bool sr_shapes_begin(struct sr_shapes *s, size_t most);
void sr_shapes_end(struct sr_shapes *s);

/* Finds the shapes of `size` bytes of records, of which it takes a copy.  False: these are no records, or they have too many. */
bool sr_shapes_find(struct sr_shapes *s, const struct sr_layouts *l, const void *records, size_t size);

/* Do all records of a shape have the same bytes there in the payload? */
bool sr_shape_is_equal(const struct sr_shapes *s, const struct sr_shape *shape, uint32_t offset, uint32_t width);

#endif
