/* SPDX-License-Identifier: BSD-2-Clause */
/* info_order.h: what the order of a rank takes in its trace, by classes of records: `sreplay info --order`. */
#ifndef REPLAY_COMMAND_INFO_ORDER_H
#define REPLAY_COMMAND_INFO_ORDER_H

#include <jansson.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/kinds.h"

struct sr_info_order;

/* NULL: no memory. */
struct sr_info_order *sr_info_order_new(const struct sr_trace *t, int32_t rank);
void sr_info_order_free(struct sr_info_order *o);

void sr_info_order_add(struct sr_info_order *o, const struct sr_log_kinds *kinds, const struct sr_entry *e);
/* The records of a thread are complete. */
void sr_info_order_end_stream(struct sr_info_order *o);

/* events: requests, completions and values (info_data_path.h). */
void sr_info_order_print(const struct sr_info_order *o, uint64_t events);
json_t *sr_info_order_json(const struct sr_info_order *o, uint64_t events);

#endif
