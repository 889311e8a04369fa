/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * output.h: what a call writes to a descriptor, in short: the first SR_OUTPUT_KEPT bytes and, if
 * there are more, a checksum of 32 bits for each SR_OUTPUT_BLOCK bytes.
 *
 * Wire types of calls.def.  "put" describes what the call has written: as many bytes as its result
 * says, none if it failed.  "deliver" has nothing to deliver: it compares what the program has in
 * the call's memory with the record, and describes the first difference in the cursor's `output`.
 * Both make the same short form, here.
 */
#ifndef SHIM_CALLS_CODEC_OUTPUT_H
#define SHIM_CALLS_CODEC_OUTPUT_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "shim/core/codec.h"
#include "shim/files/mapped_outputs.h"

void sr_put_output(struct sr_buf *b, const void *p, size_t count, ssize_t written);
void sr_deliver_output(struct sr_cursor *c, const void *p, size_t count, ssize_t written);

/* The same for pieces of memory. */
void sr_put_gathered_output(struct sr_buf *b, const struct iovec *iov, size_t n, ssize_t written);
void sr_deliver_gathered_output(struct sr_cursor *c, const struct iovec *iov, size_t n,
				ssize_t written);

/* Recorder: does vmsplice take bytes out of this pipe?  Otherwise it puts some in. */
bool sr_vmsplice_reads(int fd);

/*
 * The same for bytes that the kernel moves from another descriptor, at *at or, if at is NULL, at its
 * position.  They are read from there once more, if they can be.
 */
void sr_put_moved_output(struct sr_buf *b, int from, const off_t *at, ssize_t written);
void sr_deliver_moved_output(struct sr_cursor *c, int from, const off_t *at, ssize_t written);

/* The same for what was stored into a mapped file; a replay reads it from the program's memory. */
void sr_put_mapped_output(struct sr_buf *b, const uint64_t *piece);
void sr_deliver_mapped_output(struct sr_cursor *c, const uint64_t *piece);

#endif
