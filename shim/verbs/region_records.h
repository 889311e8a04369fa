/* SPDX-License-Identifier: BSD-2-Clause */
/* region_records.h: what happens to exposed regions, as records of the trace. */
#ifndef SHIM_VERBS_REGION_RECORDS_H
#define SHIM_VERBS_REGION_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shim/exposed/exposed.h"

/* A registration, as far as exposed memory is concerned. */
struct sr_exposed_region {
	void *addr; /* NULL: neither protected nor compared */
	size_t length;
	bool is_protected; /* its pages are exposed pages */
	struct sr_compared *compared;
};

/* Where a record is put together; used under one lock at a time. */
struct sr_event_writer {
	char *buf;
	size_t n;
};

void sr_record_exposed_event(struct sr_event_writer *w, const struct sr_exposed_event *e);

/* what: SR_REGION_ADDED or SR_REGION_REMOVED; why it is not protected, or 0. */
void sr_record_region(uint32_t what, const struct sr_exposed_region *w, uint32_t why);

#endif
