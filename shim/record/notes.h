/* SPDX-License-Identifier: BSD-2-Clause */
/* notes.h: writes records that are not calls. Operations of the engine (core/engine.h). */
#ifndef SHIM_RECORD_NOTES_H
#define SHIM_RECORD_NOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nicclock/clock.h"

struct sr_thread;

void sr_record_note(struct sr_thread *t, uint16_t kind, const void *payload, size_t size);
bool sr_record_passes(struct sr_thread *t);
void sr_record_clock(struct sr_clock_moment moment, const struct sr_order *orders, uint32_t n);

#endif
