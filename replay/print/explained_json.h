/* SPDX-License-Identifier: BSD-2-Clause */
/* explained_json.h: where a value came from, as `sreplay explain --json` says it. */
#ifndef REPLAY_PRINT_EXPLAINED_JSON_H
#define REPLAY_PRINT_EXPLAINED_JSON_H

#include <jansson.h>

#include "replay/print/explained.h"

/* {"rank": , "thread": , "sn": , "call": words} */
json_t *sr_explained_call_json(const struct sr_explained_words *x, int32_t rank, uint32_t thread,
			       uint64_t sn);

/* A value: its bytes, what brought it, what a replay found, and what was written to its place. */
json_t *sr_explained_json(const struct sr_explained_words *x, const struct sr_explained *k);

#endif
