/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/sizes.h"

#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

uint64_t sr_stream_bytes_of_image(const struct sr_trace *t, int32_t rank)
{
	const uint32_t *threads;
	size_t n = sr_trace_threads(t, rank, &threads);
	char name[40], path[PATH_MAX];
	uint64_t bytes = 0;
	struct stat st;

	for (size_t i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "thread-%u.srs", threads[i]);
		sr_trace_rank_path(t, rank, name, path, sizeof(path));
		if (!stat(path, &st))
			bytes += (uint64_t)st.st_size;
	}
	return bytes;
}

static uint64_t bytes_of_rank(struct sr_trace *t, int32_t rank)
{
	uint32_t images = sr_trace_images(t, rank);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < images; i++)
		if (!sr_trace_choose_image(t, rank, i, NULL))
			bytes += sr_stream_bytes_of_image(t, rank);
	return bytes;
}

uint64_t sr_stream_bytes(struct sr_trace *t, long rank)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < sr_trace_ranks(t); i++)
		if (rank < 0 || sr_trace_rank_number(t, i) == rank)
			bytes += bytes_of_rank(t, sr_trace_rank_number(t, i));
	return bytes;
}
