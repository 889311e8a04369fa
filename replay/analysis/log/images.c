/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/images.h"

uint32_t sr_images_most(const struct sr_trace *t)
{
	uint32_t most = 0;

	for (size_t i = 0; i < sr_trace_ranks(t); i++) {
		uint32_t n = sr_trace_images(t, sr_trace_rank_number(t, i));

		most = n > most ? n : most;
	}
	return most;
}

int sr_images_choose(struct sr_trace *t, uint32_t distance, bool *has, struct sr_error *err)
{
	int ret = 0;

	for (size_t i = 0; i < sr_trace_ranks(t) && !ret; i++) {
		int32_t rank = sr_trace_rank_number(t, i);
		uint32_t n = sr_trace_images(t, rank);

		has[i] = distance < n;
		ret = sr_trace_choose_image(t, rank, has[i] ? n - 1 - distance : 0, err);
	}
	return ret;
}

int sr_images_choose_by_sn(struct sr_trace *t, int32_t rank, uint64_t sn, struct sr_error *err)
{
	int ret = 0;

	for (uint32_t i = sr_trace_images(t, rank); i-- && !ret;) {
		ret = sr_trace_choose_image(t, rank, i, err);
		if (sn > sr_trace_sns_before(t, rank))
			break;
	}
	return ret;
}
