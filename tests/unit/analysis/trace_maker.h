/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trace_maker.h: traces that a test or benchmark writes without a program, a daemon or a
 * ring. A failure ends the process, because it is a test.
 */
#ifndef TESTS_PROCESS_TRACE_MAKER_H
#define TESTS_PROCESS_TRACE_MAKER_H

#include <stddef.h>
#include <stdint.h>

#include <sreplay/trace.h>

#include "shim/core/call.h"

struct trace_maker;

/* The directory must exist and be empty. */
struct trace_maker *trace_maker_new(const char *dir);

/* Frames are compressed from now on. */
void trace_maker_compress(struct trace_maker *m);

/* Before the rank's first record.  extra: JSON, of process.json. */
void trace_maker_rank(struct trace_maker *m, int rank, const char *extra);

/* Any record, as it is. */
void trace_maker_record(struct trace_maker *m, int rank, uint32_t thread, uint16_t kind,
			const void *payload, size_t size);

/* A call; returns its SN.  orders: numbers of its events, if it has any. */
uint64_t trace_maker_call_ordered(struct trace_maker *m, int rank, uint32_t thread,
				  enum sr_call_number n, uint64_t result, const void *in,
				  size_t in_size, const void *out, size_t out_size,
				  const uint64_t *orders, uint32_t orders_n);
uint64_t trace_maker_call(struct trace_maker *m, int rank, uint32_t thread, enum sr_call_number n,
			  uint64_t result, const void *in, size_t in_size, const void *out,
			  size_t out_size);

/* The SN of the thread's last call. */
uint64_t trace_maker_sn(struct trace_maker *m, int rank, uint32_t thread);

/* Frames are written, files closed. */
void trace_maker_finish(struct trace_maker *m);

#endif
