/* SPDX-License-Identifier: BSD-2-Clause */
/* columns_choose.h: which fields of a shape are best stored by a key.  For columns_encode.c. */
#ifndef LOGD_TRACE_COLUMNS_CHOOSE_H
#define LOGD_TRACE_COLUMNS_CHOOSE_H

#include "logd/trace/columns.h"

struct sr_columns_choice {
	int key; /* number of the field that is the key; -1: none gains anything */
	uint8_t how[SR_FIELDS_MAX]; /* SR_COLUMN_BY_KEY, SR_COLUMN_STEPS_BY_KEY, or 0: otherwise */
};

struct sr_columns_chooser;

struct sr_columns_chooser *sr_columns_chooser_new(void);
void sr_columns_chooser_free(struct sr_columns_chooser *c);

/*
 * For n records with these fields, whose payloads are at records + at[0 .. n - 1].  It looks at the first ones, and
 * estimates.
 */
void sr_columns_choose(struct sr_columns_chooser *c, const struct sr_fields *f, const unsigned char *records,
		       const uint32_t *at, uint32_t n, struct sr_columns_choice *choice);

#endif
