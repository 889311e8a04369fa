/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/races_children.h"

#include "replay/analysis/log/children.h"
#include "replay/command/command.h"

static void say(const struct sr_trace *t, size_t ranks)
{
	const size_t left_out = sr_trace_ranks(t) - ranks;
	const int32_t first = left_out ? sr_trace_rank_number(t, ranks) : 0;

	if (left_out)
		sr_note("%zu process%s that the ranks have forked %s left out, with %s accesses: no race of theirs is found (process %s alone: "
			"sreplay races %s)",
			left_out, left_out == 1 ? "" : "es", left_out == 1 ? "is" : "are", left_out == 1 ? "its" : "their",
			sr_trace_rank_name(t, first), sr_trace_rank_dir(t, first));
}

void sr_races_say_children(const char *dir)
{
	struct sr_trace *t;
	struct sr_error err;
	size_t ranks;

	if (sr_trace_open(&t, dir, &err))
		return;
	ranks = sr_trace_ranks(t);
	if (!sr_children_adopt(t, &err))
		say(t, ranks);
	sr_trace_close(t);
}
