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

#endif
