/* SPDX-License-Identifier: BSD-2-Clause */
/* confirm_race.h: the races of DIR.srec/races.json, as `sreplay confirm` and `sreplay replay
 * --race` need them. */
#ifndef REPLAY_COMMAND_CONFIRM_RACE_H
#define REPLAY_COMMAND_CONFIRM_RACE_H

#include <jansson.h>
#include <stdbool.h>

#include "replay/abi/confirm.h"

/* All of the file; NULL after a message. */
json_t *sr_races_load(const char *dir);
/* Replaces the file.  False after a message. */
bool sr_races_save(const json_t *all, const char *dir);

/* The race with this number; NULL after a message. */
json_t *sr_races_number(json_t *all, const char *dir, long number);

/*
 * What is to be looked for.  NULL: fine; else why the race cannot be confirmed.
 */
const char *sr_confirm_describe(const json_t *race, struct sr_confirm *c);

/* "READ by rank 2, post_send at get (transfer.c:80)".  To be freed. */
char *sr_race_access_text(const json_t *race, int which);

#endif
