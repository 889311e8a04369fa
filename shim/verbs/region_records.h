/* SPDX-License-Identifier: BSD-2-Clause */
/* region_records.h: writes what happens to exposed regions to the trace. */
#ifndef SHIM_VERBS_REGION_RECORDS_H
#define SHIM_VERBS_REGION_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/base/compiler.h"
#include "shim/exposed/exposed.h"

/* What the shim does about exposure for one registration. */
struct sr_exposed_region {
	void *addr; /* NULL: neither protected nor compared */
	size_t length;
	bool is_protected; /* it is an exposed region, and not compared */
	struct sr_compared *compared;
};

/* The buffer that a record is composed in.  Each one is protected by a lock of its user. */
struct sr_event_writer {
	char *buf;
	size_t n;
};

/* Memory that is shared with other processes could not be watched: with --order as well, values are recorded in full. */
extern bool sr_record_all_values SR_HIDDEN;

void sr_record_exposed_event(struct sr_event_writer *w, const struct sr_exposed_event *e);

/* what: SR_REGION_ADDED or SR_REGION_REMOVED.  why: the reason it is not protected, or 0. */
void sr_record_region(uint32_t what, const struct sr_exposed_region *w, uint32_t why);

#endif
