/* SPDX-License-Identifier: BSD-2-Clause */
/* classes.h: what the records of each kind take, for `sreplay info`. */
#ifndef REPLAY_COMMAND_CLASSES_H
#define REPLAY_COMMAND_CLASSES_H

#include <jansson.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/schema.h"

#define SR_KINDS 65536

/* Of the records of one kind. */
struct sr_class {
	uint64_t records, bytes; /* before they are compressed */
};

struct sr_classes {
	struct sr_class of[SR_KINDS];
};

void sr_classes_add(struct sr_classes *c, const struct sr_entry *e);

/* A line for each kind that has a hundredth of the bytes at least, the most bytes first. */
void sr_classes_print(const struct sr_classes *c, const struct sr_schema *schema);

/* A list of all that there are, likewise: {"class", "call", "records", "bytes"}. */
json_t *sr_classes_json(const struct sr_classes *c, const struct sr_schema *schema);

#endif
