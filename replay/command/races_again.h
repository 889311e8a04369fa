/* SPDX-License-Identifier: BSD-2-Clause */
/* races_again.h: what `sreplay races` tells `sreplay confirm` in races.json: how to find an access
 * in another run. */
#ifndef REPLAY_COMMAND_RACES_AGAIN_H
#define REPLAY_COMMAND_RACES_AGAIN_H

#include <jansson.h>

#include "replay/analysis/log/call_sites.h"
#include "replay/analysis/races/races.h"

/* The trace's races.json as it is; NULL: there is none. */
json_t *sr_races_earlier(const char *dir);

/* What sreplay confirm has found of the same race, in an earlier races.json; NULL: it has not
 * confirmed it. */
json_t *sr_races_confirmation(const json_t *earlier, const struct sr_race *race);

/* Adds it to the accesses of the races of this list.  0, or -errno and a sentence. */
int sr_races_add_instances(json_t *list, struct sr_call_sites *sites, const struct sr_races *r,
			   struct sr_error *err);

#endif
