/* SPDX-License-Identifier: BSD-2-Clause */
/* marks.h: decodes the records that are no calls. */
#ifndef REPLAY_PRINT_MARKS_H
#define REPLAY_PRINT_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"

/* Each is false if the entry is another kind of record, or too short for it. */
bool sr_entry_exit(const struct sr_entry *e, int32_t *status);
bool sr_entry_repeat(const struct sr_entry *e, uint64_t *count);

/* A mark's reason, and a sentence for it that quotes the daemon. */
bool sr_entry_mark(const struct sr_entry *e, enum sr_mark *reason, char *sentence, size_t size);

bool sr_entry_connection(const struct sr_entry *e, struct sr_connection_payload *p);
/* Why the connection carries no clocks, or not all; "" if it carries them. */
const char *sr_carries_why(uint32_t carries);

#endif
