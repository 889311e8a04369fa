/* SPDX-License-Identifier: BSD-2-Clause */
/* read_trace.h: what the modules of reader.h share. */
#ifndef LOGD_TRACE_READ_TRACE_H
#define LOGD_TRACE_READ_TRACE_H

#include "logd/trace/reader.h"

/* Formats the sentence (err may be NULL) and returns code. */
__attribute__((format(printf, 3, 4))) int sr_error_set(struct sr_error *err, int code,
						       const char *format, ...);

const char *sr_trace_dir(const struct sr_trace *t);

/* 0; or -EPROTO and a sentence that names the file, both versions and what the user can do. */
int sr_trace_check_version(const char *path, long long version, struct sr_error *err);

/* The rank's "process" of process.json, 16 bytes; NULL if there is no such rank. */
const uint8_t *sr_trace_process_id(const struct sr_trace *t, int32_t rank);

#endif
