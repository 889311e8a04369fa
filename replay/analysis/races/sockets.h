/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sockets.h: what went through the sockets and pipes of the recorded ranks, as moments of a model.
 *
 * A read comes after the write whose bytes it took, if both ends were recorded.  If one end was not, the analysis
 * does not know what happened beyond it; nor where a child uses what it has inherited.
 */
#ifndef REPLAY_ANALYSIS_RACES_SOCKETS_H
#define REPLAY_ANALYSIS_RACES_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"
#include "replay/analysis/races/kin.h"
#include "replay/analysis/races/model.h"

/* A call that read or wrote. */
struct sr_socket_use {
	uint64_t sn, begin, end; /* bytes of the channel */
	uint32_t rank, thread;
	uint32_t channel;
	uint32_t moment; /* SR_NO_MOMENT until it has one */
	bool is_write, is_linked;
};

struct sr_race_sockets {
	struct sr_socket_use *uses; /* by rank, thread, SN */
	size_t n, room;
	struct sr_socket_channel *channels;
	size_t channels_n, channels_room;
	bool shares_memory; /* a rank has memory that other processes may have as well */
};

/* Reads the calls.  0, or -errno and a sentence. */
int sr_race_sockets_load(struct sr_race_sockets *s, struct sr_trace *t, const struct sr_race_kin *kin, struct sr_error *err);
/* The next pass over the trace begins: no use has a moment yet. */
void sr_race_sockets_restart(struct sr_race_sockets *s);
void sr_race_sockets_free(struct sr_race_sockets *s);

/* What this call did: *n uses. */
struct sr_socket_use *sr_race_sockets_uses(struct sr_race_sockets *s, uint32_t rank, uint32_t thread, uint64_t sn, size_t *n);

/* All uses have moments: adds the orders between both ends. */
void sr_race_sockets_link(struct sr_race_sockets *s, struct sr_race_model *m);

#endif
