/* SPDX-License-Identifier: BSD-2-Clause */
/* confirm_why.h: why the runs of `sreplay confirm` did not come to an order, and what to do. */
#ifndef REPLAY_COMMAND_CONFIRM_WHY_H
#define REPLAY_COMMAND_CONFIRM_WHY_H

#include <stddef.h>

#include "replay/command/confirm_run.h"

#define SR_CONFIRM_WHYS 3

/* Sentences; NULL: no more. */
struct sr_confirm_why {
	char *words[SR_CONFIRM_WHYS];
	size_t n;
};

/* Of the last run that was to bring the order. */
void sr_confirm_explain(struct sr_confirm_why *w, const struct sr_confirming *x, const struct sr_confirm_outcome *o);
void sr_confirm_why_free(struct sr_confirm_why *w);

#endif
