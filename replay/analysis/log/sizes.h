/* SPDX-License-Identifier: BSD-2-Clause */
/* sizes.h: how much there is to read. */
#ifndef REPLAY_ANALYSIS_LOG_SIZES_H
#define REPLAY_ANALYSIS_LOG_SIZES_H

#include <stdint.h>

#include "logd/trace/reader.h"

/* The bytes of the streams of the image that is chosen of the rank. */
uint64_t sr_stream_bytes_of_image(const struct sr_trace *t, int32_t rank);

/* The same of all images of the rank, or of all ranks (rank -1).  The last images are chosen then. */
uint64_t sr_stream_bytes(struct sr_trace *t, long rank);

#endif
