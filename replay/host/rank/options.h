/* SPDX-License-Identifier: BSD-2-Clause */
/* options.h: how a rank is replayed. */
#ifndef REPLAY_HOST_RANK_OPTIONS_H
#define REPLAY_HOST_RANK_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "replay/host/producers/outsiders.h"
#include "replay/host/start/launch.h"

/* Where a rank's replay puts the values that its trace leaves out, and what became of that. */
struct sr_produced_by {
	int fd;    /* -1: they are not wanted */
	int error; /* an errno: not all could be written */
	bool ended_as_recorded; /* to the end of its trace at least */
};

struct sr_rank_options {
	const char *dir;     /* of the trace */
	int32_t rank;
	long timeout;        /* seconds without a call; 0: for ever */
	const char *files;   /* has the directories of private files; NULL: --live-files */
	const char *output;  /* receives what the program writes; NULL: it is dropped */
	bool no_sandbox;     /* for strangers' programs as well: start/trust.h */
	struct sr_tool tool; /* that runs the program, if any */
	long last_image;     /* of the rank, which the tool gets; -1: the last that it has */
	uint64_t calls_before; /* replayed of the rank's earlier images */
	uint32_t children_before; /* of these images, which did not run */
	bool bar; /* shows its progress */
	int json; /* a descriptor that gets the verdict as JSON, too; -1: none */
	const struct sr_outsiders *outsiders; /* of the group; NULL: nothing is known of them */
};

#endif
