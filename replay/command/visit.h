/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * visit.h: for commands that read a trace: the argument and the options that they share, and a walk
 * over the streams.
 */
#ifndef REPLAY_COMMAND_VISIT_H
#define REPLAY_COMMAND_VISIT_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/reader.h"

struct sr_choice {
	const char *dir;
	long rank; /* -1: none was named */
	const char *child; /* a child of a rank was named, as in 3/1; NULL: none was */
	bool json;
};

#define SR_CHOICE_INIT                                                                             \
	{                                                                                          \
		.rank = -1                                                                         \
	}

/* An argp child: DIR.srec, --rank and --json.  Its input is a struct sr_choice. */
extern const struct argp sr_choice_argp;

/* For commands with no other options: their only child is sr_choice_argp, and so is their input. */
error_t sr_parse_choice_only(int key, char *arg, struct argp_state *state);

/*
 * What a command does during the walk.  Each function returns an exit status.  The walk returns
 * the first that is not 0, but continues with the next stream (after `rank`: with the next rank).
 */
struct sr_visitor {
	/* Before all; NULL: nothing to do. */
	void (*trace)(void *argument, struct sr_trace *t);
	/* Before a rank's streams; NULL: nothing to do. */
	int (*rank)(void *argument, struct sr_trace *t, int32_t rank);
	/* An open stream; the visitor reads it. */
	int (*stream)(void *argument, struct sr_stream *s, int32_t rank, uint32_t thread);
	/* After a rank's streams, if rank returned 0; NULL: nothing to do. */
	int (*rank_end)(void *argument, struct sr_trace *t, int32_t rank);
	long thread;     /* this one only; -1: all */
	bool last_image; /* of each rank only */
	bool children;   /* and the processes that they have forked, unless one is named */
	int cannot_open; /* the status where a stream cannot be opened */
};

/* The chosen ranks of a trace, ascending, their images and the threads of these. */
int sr_visit(const struct sr_choice *c, const struct sr_visitor *v, void *argument);

#endif
