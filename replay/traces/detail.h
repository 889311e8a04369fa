/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * detail.h: makes a detailed trace of some ranks of a job that was recorded with --order: the recorded
 * streams, with the values that a replay of the whole job has produced.
 *
 *   sr_detail_begin     a draft beside the trace's name, and in it a file for each rank's values
 *   (the replay)        writes to these files (replay/abi/produced.h)
 *   sr_detail_finish    makes the trace of them, which then appears under its name
 *   sr_detail_end       removes what is left of the draft, in any case
 *
 * Functions return an exit status, after a message.
 */
#ifndef REPLAY_TRACES_DETAIL_H
#define REPLAY_TRACES_DETAIL_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"

struct sr_detail_rank {
	int32_t rank;
	int produced; /* the file; opened for appending */
	int error;    /* a replayed process could not write to it: an errno */
};

struct sr_detail {
	struct sr_trace *trace;
	const char *dir, *output; /* of the trace; of the one to be made */
	struct sr_detail_rank *ranks;
	size_t count;
	char draft[PATH_MAX];
	int draft_fd;
};

int sr_detail_begin(struct sr_detail *d, struct sr_trace *t, const char *dir, const int32_t *ranks,
		    size_t count, const char *output);
int sr_detail_finish(struct sr_detail *d);
void sr_detail_end(struct sr_detail *d);

#endif
