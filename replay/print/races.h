/* SPDX-License-Identifier: BSD-2-Clause */
/* races.h: races as text and as JSON, for `sreplay races`. */
#ifndef REPLAY_PRINT_RACES_H
#define REPLAY_PRINT_RACES_H

#include <jansson.h>
#include <stdio.h>

#include "replay/analysis/log/call_sites.h"
#include "replay/analysis/races/races.h"

/* Why a race is only possible: a sentence for each doubt, "" behind the last one. */
const char *sr_race_doubt_words(uint16_t doubts, size_t i);

/* "post_send at serve (steal.c:175)": where an access was made.  To be freed. */
char *sr_race_place(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_access *a);

/* Who called there, from the access outwards, as far as it is the program: strings like "worker (uts.c:97)". */
json_t *sr_race_frames(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_access *a, uint64_t stack);

/* An access as a line, and its callers as another one; as JSON. */
void sr_race_access_print(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_access *a, uint64_t stack);
json_t *sr_race_access_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_access *a);

/* A race as some lines; `number`: what it is called. */
void sr_race_print(FILE *out, struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race,
		   size_t number);

/* As docs/user/races.md has it. */
json_t *sr_race_json(struct sr_call_sites *sites, const struct sr_races *r, const struct sr_race *race, size_t number);

#endif
