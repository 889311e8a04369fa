/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * process.h: what is needed to start a process again, read from /proc.
 *
 * Arguments, environment and paths are bytes: those that are not UTF-8 become {"hex": "..."}, which
 * sr_trace_bytes (reader.h) reverses.
 */
#ifndef LOGD_WRITER_PROCESS_H
#define LOGD_WRITER_PROCESS_H

#include <jansson.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "logd/ring/protocol.h"

struct process_facts {
	pid_t pid;
	int32_t rank;
	uint32_t flags;
	uint64_t stack;
	const uint8_t *id;
	const char *extra; /* text of a JSON object */
	size_t extra_size;
	const struct sr_image_origin *image;  /* NULL: the first one of its rank */
	const struct sr_image_origin *parent; /* NULL: no recorded process has forked it */
	const struct iovec *own; /* of each enum sr_fact what the process has read itself; of size 0: it is read here */
	_Atomic unsigned int *steps; /* grows with each file that was read; or NULL */
};

/* The object of process.json, the caller's to free; NULL: error has a sentence. */
json_t *process_describe(const struct process_facts *facts, char *error, size_t error_size);

/* Bytes as above; NULL: no memory. */
json_t *process_bytes(const char *bytes, size_t size);

#endif
