/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * call_sites.h: calls of a trace in words, by position: what they are and where they were made.
 * For explain and graph; streams and symbols are opened once.
 */
#ifndef REPLAY_ANALYSIS_LOG_CALL_SITES_H
#define REPLAY_ANALYSIS_LOG_CALL_SITES_H

#include <stddef.h>
#include <stdint.h>

#include "logd/trace/reader.h"

struct sr_call_sites;

/* NULL: no memory. */
struct sr_call_sites *sr_call_sites_new(struct sr_trace *t);
void sr_call_sites_free(struct sr_call_sites *s);

/* "post_send at worker (uts.c:97)", or as much as is known.  Valid until the next call. */
const char *sr_call_sites_call(struct sr_call_sites *s, int32_t rank, uint32_t thread, uint64_t sn);

/* A library that the rank loaded later: sr_symbols_add(). */
void sr_call_sites_add(struct sr_call_sites *s, int32_t rank, const char *path, uint64_t begin, uint64_t end);

/* "worker (uts.c:97)" of a return address. */
const char *sr_call_sites_address(struct sr_call_sites *s, int32_t rank, uint64_t return_address);

#endif
