/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * report.h: a run as one HTML page, which needs no network and runs no script but its own.
 *
 * gather.c finds what there is to say; timeline_json.c and facts_json.c write it as JSON, with
 * texts of the trace only there (json_text.h); page.html, page.css and page.js, which embed.py puts
 * into the command, show it.  The page's policy allows only the script with its hash.
 */
#ifndef REPLAY_REPORT_REPORT_H
#define REPLAY_REPORT_REPORT_H

#include <stdio.h>

#include "replay/report/gather.h"
#include "replay/report/strings.h"

/* 0, or -errno and a sentence; whether it could be written is for the caller to ask `out`. */
int sr_report_write(const struct sr_gathered *g, const char *name, FILE *out, struct sr_error *err);

/* ------------------------------------------------------------------ its parts */

#define SR_REPORT_SLICES 120000 /* bars in the page; longer runs have several calls in one */
#define SR_REPORT_ARROWS 80000

struct sr_report {
	const struct sr_gathered *g;
	struct sr_strings strings;
	FILE *out;
	size_t chunk; /* calls of one bar */
};

/* Members of the page's object, each with a comma behind it.  0 or -ENOMEM. */
int sr_report_timeline(struct sr_report *r);
int sr_report_facts(struct sr_report *r);

/* Of embed.py: the page before and behind the data. */
extern const char sr_report_head[], sr_report_tail[];

#endif
