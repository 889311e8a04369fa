/* SPDX-License-Identifier: BSD-2-Clause */
/* print.h: a record of a trace in one line, for `sreplay dump` and reports. */
#ifndef REPLAY_PRINT_PRINT_H
#define REPLAY_PRINT_PRINT_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/schema.h"
#include "replay/analysis/log/symbols.h"

/* What a rank's records are printed with. */
struct sr_print {
	struct sr_schema *schema;
	struct sr_symbols *symbols; /* NULL: sites are addresses only */
};

/*
 * The record as an object: a call as sr_schema_decode makes it, with its name and its place
 * ("at"); another record as {"record": name, ...}.  NULL: it does not fit the schema.
 */
json_t *sr_print_decode(const struct sr_print *p, const struct sr_entry *e);

/* That object as a line. */
void sr_print_line(FILE *out, const struct sr_print *p, const struct sr_entry *e, json_t *decoded);

/* "@0x5555 main (prog.c:12)", as far as it is known. */
void sr_print_site(FILE *out, const struct sr_print *p, uint64_t site);

#endif
