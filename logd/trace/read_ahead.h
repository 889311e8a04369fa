/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * read_ahead.h: a thread that reads and decodes the next frame of streams while their readers take the records of the frame before it.
 *
 * It reads by a stream of its own, which has the reader's place.  What it cannot read the reader reads again, and says why.
 */
#ifndef LOGD_TRACE_READ_AHEAD_H
#define LOGD_TRACE_READ_AHEAD_H

#include <stdbool.h>

struct sr_stream;

/* true: the next frame is in s->frame, as after sr_stream_load_frame(). */
bool sr_read_ahead_take(struct sr_stream *s);

/* Has the thread read the frame that is now the next one.  Nothing happens without sr_streams_read_ahead() (reader.h). */
void sr_read_ahead_begin(struct sr_stream *s);

void sr_read_ahead_free(struct sr_stream *s);

#endif
