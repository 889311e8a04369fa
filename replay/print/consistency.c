/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/consistency.h"

#include <inttypes.h>

static const char *order_word(uint8_t order)
{
	static const char *const words[] = {"program", "read-from", "from-read", "conflict"};

	return words[order];
}

/* How the next access comes behind this one. */
static const char *order_words(uint8_t order)
{
	static const char *const words[] = {"then, in its program,", "which was read by", "which did not find yet what was written by",
					    "with which nothing orders, in another rank,"};

	return words[order];
}

static void print_cures(FILE *out, uint8_t cures)
{
	if (!cures)
		return;
	fprintf(out, "      the second one may come before the first one: wait for the completion of the first one%s%s\n",
		cures & SR_CURE_SAME_QUEUE ? ", or post both on one queue pair" : "",
		cures & SR_CURE_FENCE ? ", or post the second one with IBV_SEND_FENCE" : "");
}

void sr_cycle_print(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_cycle *c, size_t number)
{
	fprintf(out, "consistency %zu: %s; %" PRIu64 " cycle%s\n", number, c->is_observed ? "error, observed" : "warning, possible",
		c->count, c->count == 1 ? "" : "s");
	fprintf(out, "  %s:\n", c->is_observed ? "no order of all accesses that keeps each program's has what was read"
					       : "what is read in another run may be as in no order of all accesses that keeps each program's");
	for (uint32_t i = 0; i < c->n; i++) {
		sr_race_access_print(out, sites, r, &c->at[i], sr_race_stack_of(r, &c->at[i]));
		fprintf(out, "     %s%s\n", order_words(c->order[i]), i + 1 == c->n ? " the first of these" : "");
		print_cures(out, c->cures[i]);
	}
}

static json_t *cures_json(uint8_t cures)
{
	static const struct {
		uint8_t cure;
		const char *word;
	} all[] = {{SR_CURE_WAIT, "wait"}, {SR_CURE_SAME_QUEUE, "same-queue-pair"}, {SR_CURE_FENCE, "fence"}};
	json_t *list = json_array();

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (cures & all[i].cure)
			json_array_append_new(list, json_string(all[i].word));
	return list;
}

json_t *sr_cycle_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_cycle *c, size_t number)
{
	json_t *steps = json_array();

	for (uint32_t i = 0; i < c->n; i++) {
		json_t *a = sr_race_access_json(sites, r, &c->at[i]);

		json_object_set_new(a, "frames", sr_race_frames(sites, r, &c->at[i], sr_race_stack_of(r, &c->at[i])));
		json_array_append_new(steps, json_pack("{s:o, s:s, s:o}", "access", a, "order", order_word(c->order[i]), "cures", cures_json(c->cures[i])));
	}
	return json_pack("{s:I, s:s, s:s, s:I, s:o}", "consistency", (json_int_t)number, "severity", c->is_observed ? "error" : "warning", "evidence",
			 c->is_observed ? "observed" : "possible", "count", (json_int_t)c->count, "cycle", steps);
}
