/* SPDX-License-Identifier: BSD-2-Clause */
/* explain_index.h: which of some values are in a piece of a rank's memory.  For explain.c. */
#ifndef REPLAY_ANALYSIS_EXPLAIN_INDEX_H
#define REPLAY_ANALYSIS_EXPLAIN_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sr_explain_index;

/* For so many values, with numbers from 0.  NULL: no memory. */
struct sr_explain_index *sr_explain_index_new(size_t values);
void sr_explain_index_free(struct sr_explain_index *x);

/* 0 or -ENOMEM. */
int sr_explain_index_add(struct sr_explain_index *x, size_t value, size_t rank, uint64_t address,
			 uint64_t length);

/* Asks for the values near that memory: _next gives each once, and some that are only close by. */
void sr_explain_index_ask(struct sr_explain_index *x, size_t rank, uint64_t address,
			  uint64_t length);
bool sr_explain_index_next(struct sr_explain_index *x, size_t *value);

#endif
