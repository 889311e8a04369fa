/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layouts.h: of which fields a record consists.
 *
 * What it says of calls comes from the trace's schema.json, of other records from
 * sreplay/trace.h.  It serves to compress (columns.h), and is good for any record: where a record
 * is not what its layout says, the fields are only a worse guess.
 *
 * Layouts do not change: any number of threads may use them.
 */
#ifndef LOGD_TRACE_LAYOUTS_H
#define LOGD_TRACE_LAYOUTS_H

#include <stddef.h>
#include <stdint.h>

#include <sreplay/trace.h>

struct sr_layouts;

/* Of the records that this schema describes.  NULL: it is damaged, or there is no memory. */
struct sr_layouts *sr_layouts_new(const char *schema, size_t size);
void sr_layouts_free(struct sr_layouts *l);

/* The last field of a record with more takes the rest. */
#define SR_FIELDS_MAX 256

/* The fields of a payload, one behind the other, which together are all of it. */
struct sr_fields {
	uint32_t n;
	uint32_t width[SR_FIELDS_MAX]; /* in bytes, none of them 0 */
};

/*
 * The fields of a record of this kind with `size` bytes of payload.  l may be NULL: then nothing is
 * known of calls but what all have in common.
 */
void sr_layouts_fields(const struct sr_layouts *l, uint16_t kind, const void *payload,
		       uint32_t size, struct sr_fields *f);

/* The bytes of an integer of the schema, "u8" to "ptr"; 0: the type is none. */
size_t sr_type_bytes(const char *type);

#endif
