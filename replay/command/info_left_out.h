/* SPDX-License-Identifier: BSD-2-Clause */
/* info_left_out.h: what the trace of a rank leaves out (record --order), for `sreplay info`. */
#ifndef REPLAY_COMMAND_INFO_LEFT_OUT_H
#define REPLAY_COMMAND_INFO_LEFT_OUT_H

#include <jansson.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/kinds.h"

struct sr_left_out_sum {
	uint64_t messages, message_bytes; /* received */
	uint64_t values, value_bytes;     /* found in exposed memory */
};

void sr_left_out_add(struct sr_left_out_sum *sum, const struct sr_log_kinds *kinds, const struct sr_entry *e);
void sr_left_out_print(const struct sr_left_out_sum *sum);
json_t *sr_left_out_json(const struct sr_left_out_sum *sum);

#endif
