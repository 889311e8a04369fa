/* SPDX-License-Identifier: BSD-2-Clause */
/* ready.h: the moments to which a pass can go next, in a heap: the one with the lowest number first. */
#ifndef REPLAY_ANALYSIS_RACES_READY_H
#define REPLAY_ANALYSIS_RACES_READY_H

#include <stddef.h>
#include <stdint.h>

struct sr_ready {
	uint32_t *at; /* the caller's: room for all moments */
	size_t n;
};

void sr_ready_push(struct sr_ready *r, uint32_t moment);
/* There is one. */
uint32_t sr_ready_pop(struct sr_ready *r);

#endif
