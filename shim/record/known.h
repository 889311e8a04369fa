/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * known.h: received bytes that the thread's stream has already.
 *
 * A message may bring the same bytes again and again.  A recorder that copied them each time would
 * take as long as the network did.  So received bytes are taken in blocks, each has a checksum, and
 * where an earlier block of the stream has the same one, the record refers to that
 * (SR_RECORD_REFERS).  The checksum has 64 bits and a seed that is random in each process.  That of
 * an earlier block is of the bytes in the ring, which the device cannot change any more.
 */
#ifndef SHIM_RECORD_KNOWN_H
#define SHIM_RECORD_KNOWN_H

#include <stdbool.h>

#include "shim/core/thread.h"

/* Its stream ends, or another one begins. */
void sr_known_free(struct sr_thread *t);

/*
 * Writes the record of the call in t->buf, with its received bytes, or with references.  Uses
 * t->last.  False: it was not written, and is to be written without references.
 */
bool sr_known_emit(struct sr_thread *t, uint16_t kind, const struct sr_received *received);

#endif
