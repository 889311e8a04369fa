/* SPDX-License-Identifier: BSD-2-Clause */
/* image.h: the bytes of a rank's memory, as far as values have told them; zeros elsewhere. */
#ifndef REPLAY_ANALYSIS_RACES_IMAGE_H
#define REPLAY_ANALYSIS_RACES_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "replay/analysis/log/keymap.h"

struct sr_image {
	struct sr_keymap places; /* of an owner's page, in pages */
	uint8_t **pages;
	size_t n, room;
};

void sr_image_free(struct sr_image *m);

/* 0 or -ENOMEM. */
int sr_image_put(struct sr_image *m, uint32_t owner, uint64_t address, const uint8_t *data, size_t length);
void sr_image_get(const struct sr_image *m, uint32_t owner, uint64_t address, uint8_t *data, size_t length);

#endif
