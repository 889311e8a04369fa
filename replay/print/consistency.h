/* SPDX-License-Identifier: BSD-2-Clause */
/* consistency.h: cycles of accesses as text and as JSON, for `sreplay races --sc`. */
#ifndef REPLAY_PRINT_CONSISTENCY_H
#define REPLAY_PRINT_CONSISTENCY_H

#include "replay/print/races.h"

/* A cycle as some lines; `number`: what it is called. */
void sr_cycle_print(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_cycle *c, size_t number);

/* As docs/user/json.md has it. */
json_t *sr_cycle_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_cycle *c, size_t number);

#endif
