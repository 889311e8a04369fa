/* SPDX-License-Identifier: BSD-2-Clause */
/* confirm_report.h: what `sreplay confirm` has found of a race, as JSON for races.json and as text.
 */
#ifndef REPLAY_COMMAND_CONFIRM_REPORT_H
#define REPLAY_COMMAND_CONFIRM_REPORT_H

#include <jansson.h>

#include "replay/command/confirm_compare.h"
#include "replay/command/confirm_run.h"
#include "replay/command/confirm_why.h"

/* An order: ab (0) or ba (1). */
struct sr_confirm_order {
	bool is_wanted;
	bool is_forced; /* both were pending, and took effect in this order */
	int tries;
	uint64_t held_ns, ns;        /* of the last try */
	struct sr_confirm_outcome o; /* of the last try */
	struct sr_confirm_why why;   /* it was not forced */
};

struct sr_confirm_found {
	struct sr_confirm_order order[2];
	bool is_confirmed;
	bool is_compared;   /* both orders have been forced */
	bool has_noise;     /* ab was run twice */
	bool statuses_vary; /* ... and ended differently */
	struct sr_run_differences differs;
	const char *why_not; /* why it was not tried; NULL: it was */
};

/* "result", "spreads", "value", "same"; NULL: not both orders were forced. */
const char *sr_confirm_effect(const struct sr_confirm_found *f);

json_t *sr_confirm_json(const struct sr_confirm_found *f);
void sr_confirm_print(const json_t *race, const struct sr_confirm_found *f);

#endif
