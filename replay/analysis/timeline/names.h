/* SPDX-License-Identifier: BSD-2-Clause */
/* names.h: the names of a timeline's calls, sites and ranks. */
#ifndef REPLAY_ANALYSIS_TIMELINE_NAMES_H
#define REPLAY_ANALYSIS_TIMELINE_NAMES_H

#include <jansson.h>

#include "replay/analysis/log/schema.h"
#include "replay/analysis/log/symbols.h"
#include "replay/analysis/timeline/timeline.h"

struct sr_names {
	const struct sr_timeline *t;
	struct sr_schema **schemas; /* by rank index */
	struct sr_image_names {
		json_t *objects; /* which the symbols refer to */
		struct sr_symbols *symbols;
	} **images; /* by rank index, then by distance from the last one */
};

/* 0, or -errno and a sentence.  To be freed in both cases. */
int sr_names_load(struct sr_names *names, const struct sr_timeline *t, struct sr_error *err);
void sr_names_free(struct sr_names *names);

const char *sr_names_call(const struct sr_names *names, size_t rank, uint16_t kind);
/* "worker (uts.c:97)" of a return address, with its image; "" if it is not known. */
const char *sr_names_site(const struct sr_names *names, size_t rank, uint64_t site);
/* The command of a rank, shortened; a malloc'ed string, NULL: no memory. */
char *sr_names_command(const struct sr_names *names, size_t rank);

#endif
