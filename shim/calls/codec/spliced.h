/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * spliced.h: bytes that splice took out of a captured descriptor, for a regular file.
 *
 * A replay has no such descriptor, so the recorder reads the bytes in the file, and a replay puts them there, behind the call.
 */
#ifndef SHIM_CALLS_CODEC_SPLICED_H
#define SHIM_CALLS_CODEC_SPLICED_H

#include <stdbool.h>
#include <sys/types.h>

#include "shim/core/codec.h"

bool sr_splice_enters(int from, int to);

/* to_at: the offset after the call; NULL: they end at the descriptor's position. */
void sr_put_spliced(struct sr_buf *b, int to, const off_t *to_at, ssize_t moved);
void sr_deliver_spliced(struct sr_cursor *c, int to, const off_t *to_at, ssize_t moved);

#endif
