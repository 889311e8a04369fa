/* SPDX-License-Identifier: BSD-2-Clause */
/* marks.h: the records that are no calls, taken apart. */
#ifndef REPLAY_PRINT_MARKS_H
#define REPLAY_PRINT_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"

/* Each is false if the entry is another kind of record, or too short for it. */
bool sr_entry_exit(const struct sr_entry *e, int32_t *status);
bool sr_entry_repeat(const struct sr_entry *e, uint64_t *count);

/* A mark's reason, and what it means, with the daemon's own words. */
bool sr_entry_mark(const struct sr_entry *e, enum sr_mark *reason, char *sentence, size_t size);

bool sr_entry_connection(const struct sr_entry *e, struct sr_connection_payload *p);
/* Why it carries none, or not all; "" if it does. */
const char *sr_carries_why(uint32_t carries);

#endif
