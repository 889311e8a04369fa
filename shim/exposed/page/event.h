/* SPDX-License-Identifier: BSD-2-Clause */
/* event.h: gathers what one fault brings, and hands it over; in a replay, takes what was recorded. */
#ifndef SHIM_EXPOSED_PAGE_EVENT_H
#define SHIM_EXPOSED_PAGE_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/exposed/page/events.h"

/* Replay: does the trace's next event come now? */
bool sr_exposed_is_due(const struct sr_exposed_event *next, const struct sr_exposed_event *now);

/* Once, before the first event.  -errno. */
int event_init(void);

void event_begin(uint64_t fault, uint32_t flags, uintptr_t pc, uintptr_t addr);
/* The program learns these bytes.  still: no request was landing in their page when they were copied. */
void event_value(uintptr_t addr, const void *data, uint32_t length, uint32_t flags, bool still);
/* Another process wrote these bytes, which lie in no exposed page. */
void event_written(uintptr_t addr, const void *data, uint32_t length);
void event_protected(uintptr_t user);
void event_flag(uint32_t flag);
/* It comes as the thread gives up its processor, for the so-manieth time since its last call. */
void event_yields(uint64_t yields);
void event_ticks(uint64_t ticks);
/* Hands it over, if it has anything. */
void event_end(void);

/* Replay: puts what was recorded with the event that has begun into the backing mapping.  False: nothing was. */
bool replay_values(void);
bool replay_flagged(uint32_t flag);
/* SR_EXPOSED_SNAPSHOT, SR_EXPOSED_FILLED: how many pages behind the first one changed their state with it. */
uint32_t replay_further(void);
/* The next of the pages that were protected with it.  False: there is no further one. */
bool replay_next_protected(uintptr_t *user);

#endif
