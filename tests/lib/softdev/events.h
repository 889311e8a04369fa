/* SPDX-License-Identifier: BSD-2-Clause */
/* events.h: the receiving side of channels. */
#ifndef SOFTDEV_EVENTS_H
#define SOFTDEV_EVENTS_H

#include "fabric.h"

/* Returns the descriptor, or -errno. */
int sd_channel_open(uint32_t *channel_1);
void sd_channel_close(uint32_t channel_1, int fd);

/* Waits for an event unless the descriptor is non-blocking; -1 with errno. */
int sd_channel_take(uint32_t channel_1, int fd, uint64_t *event);

/* With the lock held: removes the events of one object. */
void sd_channel_drop(uint32_t channel_1, int fd, bool (*is_its)(uint64_t event, uint32_t index),
		     uint32_t index);

#endif
