/* SPDX-License-Identifier: BSD-2-Clause */
/* races_again.h: what `sreplay races` tells `sreplay confirm` in races.json: how to find an access in another run. */
#ifndef REPLAY_COMMAND_RACES_AGAIN_H
#define REPLAY_COMMAND_RACES_AGAIN_H

#include <jansson.h>

#include "replay/analysis/races/races.h"

/* Adds it to the accesses of the races of this list.  0, or -errno and a sentence. */
int sr_races_add_instances(json_t *list, const struct sr_races *r, struct sr_error *err);

#endif
