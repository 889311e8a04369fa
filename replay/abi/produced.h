/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * produced.h: values that a trace leaves out (record --order) and a replay of the whole job has
 * produced again.
 *
 * The replayed process writes them to the file control->produced_fd, if there is one: each as one entry,
 * in the order of its thread's calls.  So are the addresses of loads, of which the trace has the pages, and the encoded arguments of calls that
 * post requests, where the trace has only sums of some of them (shim/core/sums.h).  The command makes a detailed trace of them (--record-ranks).
 */
#ifndef REPLAY_ABI_PRODUCED_H
#define REPLAY_ABI_PRODUCED_H

#include <stdint.h>

/* The value's bytes follow, and nothing pads them.  Without any: it is not to be in the detailed trace. */
struct sr_produced_entry {
	uint32_t thread;
	uint32_t length;
};

/* An entry for each completion whose record does not say whose it is, in front of those of what it brought. */
struct sr_produced_pick {
	uint64_t wr_id;
	uint64_t addr; /* where the poll's i-th piece came to, of its i-th completion; 0: it has none */
	uint32_t qp_num;
	uint32_t reserved;
};

#endif
