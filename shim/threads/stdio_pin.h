/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stdio_pin.h: standard output's buffer.
 *
 * stdio allocates this buffer at the first print, with a size that depends on what descriptor 1
 * is. A terminal in one run and a pipe in the other would move all later allocations. So in both
 * runs the shim provides the buffer, and it is flushed as in the recording.
 */
#ifndef SHIM_THREADS_STDIO_PIN_H
#define SHIM_THREADS_STDIO_PIN_H

#include <stdbool.h>

/* Recording: line buffered on a terminal, otherwise fully buffered, as stdio does it. */
void sr_stdio_pin_as_found(void);

/* Replay: as recorded. */
void sr_stdio_pin(bool line_buffered);

bool sr_stdio_line_buffered(void);

#endif
