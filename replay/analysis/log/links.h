/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * links.h: which queue pairs of the recorded ranks are connected to each other.
 *
 * A first pass reads the control path of all ranks.  A queue pair names the number of the other
 * end at its transition to RTR, or librdmacm's events do.  Two that name each other are linked.
 * Numbers are counted anew on each node, so several may match: sequence numbers and GIDs decide
 * then, and what stays ambiguous is flagged.
 */
#ifndef REPLAY_ANALYSIS_LOG_LINKS_H
#define REPLAY_ANALYSIS_LOG_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/log/keymap.h"

#define SR_NO_END SIZE_MAX

/* One end: a queue pair, from one connection on. */
struct sr_end {
	size_t rank; /* index among the trace's ranks */
	uint32_t thread;
	uint64_t sn; /* of the call that connected it */
	uint64_t qp;
	uint32_t qp_num, peer_qp_num, type;
	bool psn_known, ambiguous;
	uint32_t sq_psn, rq_psn;
	uint8_t sgid_index;
	bool has_gid;
	uint8_t gid[16]; /* the other end's */
	size_t peer;     /* index of an end; SR_NO_END: no recorded rank's */
};

/* Memory that a rank registered. */
struct sr_region {
	uint64_t begin, end, sn, site; /* sn, site, thread: of the call */
	uint32_t thread;
};

struct sr_links_rank {
	int32_t number;
	const char *name; /* the trace's */
	int member; /* its number in clocks; -1: none */
	/* If iova and address differ: key to iova - address. */
	struct sr_keymap lkeys, rkeys;
	struct sr_keymap relaxed; /* by rkey: WRITEs come there in any order */
	struct sr_keymap gids; /* by index: place in gid */
	uint8_t (*gid)[16];
	size_t gids_n;
	size_t *ends; /* its own, by thread and SN */
	size_t ends_n;
	struct sr_region *regions; /* as they were registered, thread by thread; the ends of registrations are not noted */
	size_t regions_n, regions_room;
	/* In their order: how many completions of which queues do not say whose they are. */
	struct sr_picked_payload *picked;
	size_t picked_n;
	/* Requests of which the bytes that they send changed while they were under way (record --check-buffers), ascending. */
	struct sr_changed_payload *changed;
	size_t changed_n;
	bool is_cut; /* its trace ends before it did */
	uint64_t records;
};

/* A queue pair for datagrams. */
struct sr_datagram_end {
	size_t rank;
	uint32_t qp_num;
};

struct sr_links {
	struct sr_links_rank *ranks;
	size_t ranks_n;
	struct sr_datagram_end *datagrams;
	size_t datagrams_n, datagrams_room;
	struct sr_end *ends;
	size_t ends_n, ends_room;
};

/*
 * Each may be NULL.  Called after each rank: progress, and the places in streams that were read
 * completely.
 */
struct sr_links_hooks {
	void (*progress)(void *argument, uint64_t done, uint64_t size);
	int (*places)(void *argument, int32_t rank, uint32_t thread,
		      const struct sr_stream_place *places, size_t n);
	void *argument;
};

/* 0, or -errno and a sentence. */
int sr_links_find(struct sr_links *l, struct sr_trace *t, const struct sr_links_hooks *hooks,
		  struct sr_error *err);
void sr_links_free(struct sr_links *l);

/* Was the request, of this number in the call that posted it, one of those that changed? */
bool sr_links_has_changed(const struct sr_links *l, size_t rank, uint32_t thread, uint64_t sn, uint32_t number);

/* The name of the rank with this number; "?": there is none. */
const char *sr_links_name(const struct sr_links *l, int32_t number);

/* The ends that this call of a rank creates: *n of them. */
const size_t *sr_links_at(const struct sr_links *l, size_t rank, uint32_t thread, uint64_t sn,
			  size_t *n);

#endif
