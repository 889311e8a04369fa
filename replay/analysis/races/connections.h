/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * connections.h: what librdmacm tells one end of a connection of the other one: that it asks for the connection, accepts it, and ends it.
 *
 * What a thread does after it got such an event comes after the other end's call.
 */
#ifndef REPLAY_ANALYSIS_RACES_CONNECTIONS_H
#define REPLAY_ANALYSIS_RACES_CONNECTIONS_H

#include "replay/analysis/races/collecting.h"

/* struct sr_process_hooks. */
int sr_collect_cm(void *argument, const struct sr_cm_act *a);

/* At the end: the orders between both ends. */
void sr_collect_follow_cm(struct sr_collect *c);

#endif
