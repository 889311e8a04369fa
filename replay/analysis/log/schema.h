/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * schema.h: the meaning of call records, from the schema stored in the trace (calls.def as JSON),
 * so that records of any version can be printed.
 */
#ifndef REPLAY_ANALYSIS_LOG_SCHEMA_H
#define REPLAY_ANALYSIS_LOG_SCHEMA_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "logd/trace/reader.h"

struct sr_schema;

#define SR_SCHEMA_DAMAGED "%s/rank-%d/schema.json is damaged: record the program again"

/* The schema of a rank of the trace; NULL and a sentence. */
struct sr_schema *sr_schema_of(const struct sr_trace *t, int32_t rank, struct sr_error *err);
void sr_schema_free(struct sr_schema *s);

/* "ibv_poll_cq", or "exit" for 0, or "unknown call N". */
const char *sr_schema_name(const struct sr_schema *s, uint16_t kind);

/* Direct verbs: let through, only its name was recorded. */
bool sr_schema_is_direct(const struct sr_schema *s, uint16_t kind);

/* A program makes it again and again while it waits for memory to change, and nothing comes of it but time. */
bool sr_schema_pauses(const struct sr_schema *s, uint16_t kind);

/*
 * A call record's payload as
 *   {"site": , "result": , "errno": , "in": {...}, "out": {...}}
 * in the order of the fields; NULL if the bytes do not fit the schema.
 */
json_t *sr_schema_decode(const struct sr_schema *s, uint16_t kind, const void *payload,
			 size_t size);

/* Encoded arguments alone. */
json_t *sr_schema_decode_in(const struct sr_schema *s, uint16_t kind, const void *in, size_t size);

/* A decoded value in short form: fd=3 data=[40 bytes] 30303031... */
void sr_schema_print(FILE *out, const json_t *value);

#endif
