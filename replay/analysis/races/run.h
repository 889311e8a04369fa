/* SPDX-License-Identifier: BSD-2-Clause */
/* run.h: a trace as races are searched in it, and what of the trace is wanted. */
#ifndef REPLAY_ANALYSIS_RACES_RUN_H
#define REPLAY_ANALYSIS_RACES_RUN_H

#include "logd/trace/reader.h"
#include "replay/analysis/log/links.h"
#include "replay/analysis/process/events.h"
#include "replay/analysis/races/model.h"
#include "replay/analysis/races/queues.h"
#include "replay/analysis/races/watched.h"

/* A moment at which a rank learned something from outside of the recorded ranks, or told it. */
struct sr_race_border {
	uint32_t moment, rank, end;
	bool is_entry, is_socket;
	bool is_value; /* a value of the recorded ranks, but it is not known which request left it */
	bool is_unclocked; /* the same, as one of the processes has no clock (unclocked.h) */
	bool is_end; /* from this moment on its rank may know that its child has ended, at `end` */
	bool is_shared; /* an entry: what another process's CPU may have stored in memory that they share */
};

/* A WRITE that a load has not found, since a later one was there: struct sr_race_skip. */
struct sr_race_skipped {
	uint64_t checksum, sn;
	uint32_t landing, place; /* place: in its queue */
	uint32_t rank, thread;
};

/*
 * A load found what a WRITE had left in a word.  WRITEs before it, of the same queue, had come since the word was seen last: in another
 * run the load may find what one of them leaves.
 */
struct sr_race_skip {
	uint64_t word, before, found; /* an aligned word; before: what was there when it was seen last */
	uint64_t begin, end;          /* of the WRITEs */
	uint64_t sn, pc;              /* of the load */
	size_t first;                 /* in `skipped`, in the order in which they came */
	uint32_t n, queue;
	uint32_t rank, thread, fault, moment;
	uint32_t landing, place; /* of the WRITE that it found */
};

/* A call of a rank: the lane of its moment has the rank's number. */
struct sr_race_call {
	uint64_t sn;
	uint32_t thread, moment;
};

/* Memory of which its program said that races in it do no harm. */
struct sr_race_benign {
	uint64_t begin, end;
	uint32_t owner;
};

/* Asked for with struct sr_race_collecting.consistency. */
struct sr_race_finding {
	uint64_t begin, end;
	uint64_t reader, writer; /* requests; no reader: the CPU found that its bytes are the writer's now; no writer: what was read was no request's */
	uint32_t owner, moment;
};

struct sr_race_run {
	struct sr_race_model model;
	struct sr_race_finding *findings;
	size_t findings_n, findings_room;
	struct sr_race_call *calls; /* ascending by moment */
	size_t calls_n, calls_room;
	struct sr_race_border *borders;
	size_t borders_n, borders_room;
	struct sr_race_skip *skips;
	size_t skips_n, skips_room;
	struct sr_race_skipped *skipped;
	size_t skipped_n, skipped_room;
	struct sr_race_benign *benign;
	size_t benign_n, benign_room;
	struct sr_process_counts counts;
	uint64_t loads, stores, requests, receives; /* collected */
	uint64_t certain, uncertain;        /* runs of bytes whose producer is known, and is not */
	bool has_clocks; /* all ranks have them; forked children may have none */
	uint64_t locks; /* found */
	bool shares_memory; /* with processes that may tell each other things there, unseen */
};

enum sr_race_predict {
	SR_PREDICT_ORDER, /* sections of a lock come in the order of this run */
	SR_PREDICT_LOCKS, /* ... or in another one */
	SR_PREDICT_LOCKSET, /* ... and besides, only what all ranks know at once (a barrier) orders: possible races */
};

/* What atomics returned, by their number, as a pass over the trace found it. */
struct sr_race_results {
	struct sr_keymap values;
	struct sr_keymap swapped; /* words, by rank, that compare-and-swaps are for */
	bool are_all;     /* that can be found without watched loads */
	uint64_t lacking; /* so many have completed without */
	bool were_watched;
};

void sr_race_results_free(struct sr_race_results *r);

struct sr_race_collecting {
	struct sr_trace *trace;
	const struct sr_links *links;
	const bool *group; /* by rank: are its accesses looked at? */
	enum sr_memory_model memory;
	enum sr_race_predict predict;
	struct sr_race_results *results; /* NULL, or where they stay: the next time they are not looked for */
	unsigned int threads; /* that search; what they find does not depend on it */
	bool no_loads;
	bool messages; /* their order in shared receive queues is looked at */
	bool consistency; /* is it looked at, too? */
	bool shared_is_seen; /* in memory that processes share they tell each other no more than what they found there */
	struct sr_race_watches *watches; /* NULL: nothing was watched */
	void (*progress)(void *argument, uint64_t done, uint64_t size);
	void *argument;
};

#endif
