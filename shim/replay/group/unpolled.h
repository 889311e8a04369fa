/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * unpolled.h: messages that are in exposed memory before their completions have been polled, so that a load found them there.
 *
 * Which receive a message comes into, only its completion tells.  The next messages of a connection are tried in the receives
 * that come next, then each in all outstanding ones whose memory the value is in.
 */
#ifndef SHIM_REPLAY_GROUP_UNPOLLED_H
#define SHIM_REPLAY_GROUP_UNPOLLED_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/page.h"
#include "shim/replay/group/own.h"

#define SR_UNPOLLED_PIECES 128

/* What a message would bring to the page of the value. */
struct sr_unpolled_piece {
	uint64_t at;
	uint32_t from, n; /* n bytes of the message, from there on */
	uint64_t number;  /* of the message */
	uint8_t bytes[PAGE];
};

struct sr_unpolled {
	uint64_t addr; /* a value, within one page */
	uint32_t length;
	struct sr_unpolled_piece *pieces; /* room for SR_UNPOLLED_PIECES */
	/* Is it what the first n pieces make of it? */
	bool (*fits)(void *argument, uint32_t n);
	void *argument;
};

/*
 * Looks for messages that fit; they are in the history from then on.  False: there are none, or another thread has
 * sr_group_lock.  With the lock of the exposed regions.
 */
bool sr_unpolled_find(const struct sr_unpolled *u);

/* Its completion has come: is this piece of it, within one page, in the history already? */
bool sr_unpolled_was_found(const struct sr_group_channel *in, uint64_t number, uint64_t addr);

#endif
