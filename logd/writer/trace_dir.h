/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace_dir.h: the directory of a trace, and the claim on a rank in it.
 *
 * Daemons of several nodes may do this at the same time for one directory, on a shared file
 * system.  A reader finds whole files only.
 */
#ifndef LOGD_WRITER_TRACE_DIR_H
#define LOGD_WRITER_TRACE_DIR_H

#include <jansson.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/ring/protocol.h"

struct rank_claim {
	const char *dir; /* absolute */
	int32_t rank;
	const uint8_t *process; /* 16 bytes that identify the process */
	const struct sr_image_origin *image; /* NULL: the first one of the rank */
	json_t *description;    /* becomes process.json; NULL: the rank must be there already */
	const char *schema;
	size_t schema_size;
	_Atomic unsigned int *steps; /* grows with each file that is written; or NULL */
};

/*
 * Makes DIR, its manifest and DIR/rank-N (of a later image: DIR/rank-N/image-K) with process.json
 * and schema.json, or finds them made for the same process.  0: both directories are open as *trace_fd and *rank_fd, the caller's to
 * close; or -errno and a sentence.
 */
int trace_dir_claim(const struct rank_claim *claim, int *trace_fd, int *rank_fd, char *error,
		    size_t error_size);

/* 16 bytes as 32 hexadecimal digits and a 0. */
void process_id_text(char text[33], const uint8_t *process);

#endif
