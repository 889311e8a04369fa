/* SPDX-License-Identifier: BSD-2-Clause */
/* explain_entered.h: for `sreplay explain`: what entered at a call that has nothing to do with verbs. */
#ifndef REPLAY_COMMAND_EXPLAIN_ENTERED_H
#define REPLAY_COMMAND_EXPLAIN_ENTERED_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/reader.h"

/* Prints it; or, with json, makes an object of it, or null. False: nothing that it could say. */
bool sr_explain_entered(struct sr_trace *t, int32_t rank, uint32_t thread, uint64_t sn, json_t **json);

#endif
