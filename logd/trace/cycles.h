/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cycles.h: makes calls of a record that says which calls came again in turn (SR_REC_CYCLE).
 *
 * For read_stream.c; one thread at a time for each stream.
 */
#ifndef LOGD_TRACE_CYCLES_H
#define LOGD_TRACE_CYCLES_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/reader.h"

struct sr_cycles {
	struct sr_kept_call {
		_Alignas(8) unsigned char payload[SR_KEPT_BYTES];
		uint16_t kind, size;
	} kept[SR_KEPT]; /* the last SR_RECORD_KEPT, in turn */
	uint64_t kept_n;
	struct sr_cycle_payload cycle;
	struct sr_entry entry; /* the record */
	uint32_t first, done;  /* of its calls; cycle.calls: it is over */
	bool folds;            /* one turn stands for all */
};

/* Nothing is known of the records that come next: a seek. */
void sr_cycles_forget(struct sr_cycles *c);

/* e is SR_RECORD_KEPT.  False: it cannot be. */
bool sr_cycles_keep(struct sr_cycles *c, const struct sr_entry *e);

/* e is a SR_REC_CYCLE, of which so many calls are passed over.  False: it repeats what is not there. */
bool sr_cycles_begin(struct sr_cycles *c, const struct sr_entry *e, uint64_t passed);

/* The next call of the cycle.  False: there is none. */
bool sr_cycles_next(struct sr_cycles *c, struct sr_entry *e);

#endif
