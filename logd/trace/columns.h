/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * columns.h: the records of a frame with equal fields side by side, which compress better.
 *
 * Records of the same kind, flags and size have the same fields, and are of one shape or several (shapes.h).  Each field
 * of a shape is a column: its values in all records of the shape, in their order.  What is decoded
 * is the same bytes, whatever the records are.  docs/format/trace-format.md describes the bytes.
 *
 * An encoder and a decoder belong to one thread at a time.
 */
#ifndef LOGD_TRACE_COLUMNS_H
#define LOGD_TRACE_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/layouts.h"

/* How a column is stored. */
enum sr_column {
	SR_COLUMN_PLAIN = 0, /* the values */
	SR_COLUMN_EQUAL = 1, /* one value, which all records have */
	SR_COLUMN_DELTAS =
	    2, /* of 2, 4 or 8 bytes: differences to the value before, zigzag, LEB128 */
	/* The same to the value before of a record with the same key, which is another field: columns_keys.h. */
	SR_COLUMN_BY_KEY = 3,
	SR_COLUMN_STEPS_BY_KEY = 4, /* ... to what comes if that value's step is made again */
	SR_COLUMN_SAME = 5, /* the values of another field in front of it */
};

struct sr_columns_encoder;

/* For frames of up to `most` bytes.  NULL: no memory. */
struct sr_columns_encoder *sr_columns_encoder_new(size_t most);
void sr_columns_encoder_free(struct sr_columns_encoder *e);

/*
 * Turns `size` bytes of records (read once: a ring may change meanwhile) into columns, which are
 * the encoder's until the next call.  Returns how many bytes they are; 0: these are no records that
 * become fewer bytes by that.
 */
size_t sr_columns_encode(struct sr_columns_encoder *e, const struct sr_layouts *l,
			 const void *records, size_t size, const void **columns);

/* Is a column of the last frame stored by a key?  Then the frame's codec is SR_CODEC_COLUMNS_BY_KEY. */
bool sr_columns_have_keys(const struct sr_columns_encoder *e);

/*
 * Turns columns into exactly `size` bytes of records, 8-byte aligned.  0; -EBADMSG: they are
 * damaged; -ENOMEM.
 */
int sr_columns_decode(const void *columns, size_t columns_size, void *records, size_t size);

#endif
