/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * confirm_outputs.h: which writes of a run are what the program puts out: to where its standard output leads, and to files.
 *
 * What ranks and their launcher tell each other by sockets and pipes is not: the numbers of queue pairs and keys are others in
 * each run.
 */
#ifndef REPLAY_COMMAND_CONFIRM_OUTPUTS_H
#define REPLAY_COMMAND_CONFIRM_OUTPUTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"

struct sr_outputs {
	struct sr_output_place {
		uint32_t thread;
		uint64_t sn;
	} *list;
	size_t n, room;
	bool is_short; /* no memory was left for more */
};

/* Those of a rank, as far as its trace can be read.  False: no memory left. */
bool sr_outputs_of(struct sr_outputs *o, struct sr_trace *t, int32_t rank);
bool sr_outputs_have(const struct sr_outputs *o, uint32_t thread, uint64_t sn);
void sr_outputs_free(struct sr_outputs *o);

#endif
