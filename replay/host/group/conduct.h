/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * conduct.h: replays the ranks of a group at the same time, each in a child process (rank.h).  If
 * one fails, all are ended.
 */
#ifndef REPLAY_HOST_GROUP_CONDUCT_H
#define REPLAY_HOST_GROUP_CONDUCT_H

#include <stddef.h>
#include <stdint.h>

#include "replay/host/group/transport.h"
#include "replay/host/rank/rank.h"

struct sr_conduct {
	struct sr_trace *trace;
	const char *dir;
	const int32_t *ranks; /* ascending */
	size_t count;
	long timeout;
	const char *files;   /* has the directories of private files; NULL: --live-files */
	bool no_sandbox;     /* see rank.h */
	const char *output;  /* directory for what each rank prints; NULL: none */
	bool bar;            /* shows its progress */
	bool has_no_plan;    /* so each rank is replayed alone, and that is said */
	int json;            /* as in struct sr_rank_options */
	struct sr_tool tool;
	int32_t tool_rank;                    /* the rank that it runs; -1: none */
	struct sr_transport *transport;       /* ready */
	const struct sr_outsiders *outsiders; /* NULL: nothing is known of them */
	struct sr_produced_by *produced;      /* by each rank; NULL: nobody wants it */
};

/* The exit status: 0 if all ranks ended as recorded. */
int sr_conduct(const struct sr_conduct *c);

#endif
