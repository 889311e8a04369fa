/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * stdio_pin.h: standard output's buffer.
 *
 * stdio allocates it at the first print, with a size that depends on what descriptor 1 is: a
 * terminal in one run and a pipe in the other would move all later allocations.  So in both
 * runs it is a buffer of the shim's, which is flushed as it was in the recording.
 */
#ifndef SHIM_THREADS_STDIO_PIN_H
#define SHIM_THREADS_STDIO_PIN_H

#include <stdbool.h>

/* Recording: line buffered on a terminal, fully otherwise, as stdio would. */
void sr_stdio_pin_as_found(void);

/* Replay: as recorded. */
void sr_stdio_pin(bool line_buffered);

bool sr_stdio_line_buffered(void);

#endif
