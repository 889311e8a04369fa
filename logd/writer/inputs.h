/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * inputs.h: small files that programs open, which their records in the rings describe (SR_REC_INPUT).
 * A round trip to the daemon for each would cost more than reading them.  For the drain threads.
 */
#ifndef LOGD_WRITER_INPUTS_H
#define LOGD_WRITER_INPUTS_H

#include <stddef.h>
#include <stdint.h>

/* The directories of the rank and of its trace. */
struct read_files;

struct inputs_place {
	int rank_fd, trace_fd;
	struct read_files *files; /* the rank's; or NULL */
	int32_t rank;
};

/*
 * Writes what the records, whole ones in a ring, say of files into the trace, and makes PADs of
 * them.  A daemon that is killed before their frame is written leaves that to its successor, which finds
 * the rest.  Errors are logged: a replay then cannot tell whether the files have changed.
 */
void inputs_take(const struct inputs_place *place, void *records, size_t bytes);

#endif
