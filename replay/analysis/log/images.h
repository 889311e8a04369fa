/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * images.h: for a pass over all images of all ranks.  They are taken by their distance from the last
 * one: those of ranks that became the same program, by a wrapper or without, belong together.
 */
#ifndef REPLAY_ANALYSIS_LOG_IMAGES_H
#define REPLAY_ANALYSIS_LOG_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/reader.h"

/* How many the rank with the most has. */
uint32_t sr_images_most(const struct sr_trace *t);

/*
 * Chooses the image at this distance of each rank, or else its first one.  has: by rank index, whether
 * it has that one.  0, or -errno and a sentence.
 */
int sr_images_choose(struct sr_trace *t, uint32_t distance, bool *has, struct sr_error *err);

/* Chooses the image of this rank in which a call with this SN is. */
int sr_images_choose_by_sn(struct sr_trace *t, int32_t rank, uint64_t sn, struct sr_error *err);

#endif
