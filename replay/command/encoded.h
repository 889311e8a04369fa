/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * encoded.h: what some of a rank's records take on disk, for `sreplay info`.
 *
 * In the trace they are compressed together with all others.  So they are encoded again, alone, as the daemon does it.
 */
#ifndef REPLAY_COMMAND_ENCODED_H
#define REPLAY_COMMAND_ENCODED_H

#include <stdint.h>

#include "logd/trace/reader.h"

struct sr_encoded;

/* NULL: no memory. */
struct sr_encoded *sr_encoded_new(const struct sr_trace *t, int32_t rank);
void sr_encoded_free(struct sr_encoded *d);

void sr_encoded_add(struct sr_encoded *d, const struct sr_entry *e);
/* The records of a thread are complete. */
void sr_encoded_end_stream(struct sr_encoded *d);

uint64_t sr_encoded_records(const struct sr_encoded *d);
/* Of complete threads. */
uint64_t sr_encoded_bytes(const struct sr_encoded *d);

#endif
