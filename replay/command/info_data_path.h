/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * info_data_path.h: what the data path takes of a trace, for `sreplay info`.
 *
 * The data path is requests, polls, what loads found in exposed memory, clocks and sums (encoded.h).
 */
#ifndef REPLAY_COMMAND_INFO_DATA_PATH_H
#define REPLAY_COMMAND_INFO_DATA_PATH_H

#include <jansson.h>
#include <stdint.h>

#include "logd/trace/layouts.h"
#include "logd/trace/reader.h"
#include "replay/analysis/log/kinds.h"

struct sr_data_path;

/* Of the records of a rank.  NULL: no memory. */
struct sr_data_path *sr_data_path_new(const struct sr_trace *t, int32_t rank);
void sr_data_path_free(struct sr_data_path *d);

void sr_data_path_add(struct sr_data_path *d, const struct sr_log_kinds *kinds, const struct sr_entry *e);
/* The records of a thread are complete. */
void sr_data_path_end_stream(struct sr_data_path *d);

/* Requests, completions and values. */
uint64_t sr_data_path_events(const struct sr_data_path *d);

void sr_data_path_print(const struct sr_data_path *d);
json_t *sr_data_path_json(const struct sr_data_path *d);

#endif
