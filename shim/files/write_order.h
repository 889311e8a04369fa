/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * write_order.h: of several threads that write to one file, which was first?  A recording
 * finds out by letting one of them write at a time, from before the real call until the number of
 * its event is drawn.  A replay then writes in the order of the events.
 *
 * Only for descriptors that are not captured: what goes to others is compared only, thread by
 * thread.  These are files, terminals and pipes, where the kernel lets one write at a time as well.
 * Where a write blocks for long, or never returns (a handler jumped out of it), the next one goes
 * ahead after a while, so no program stops because of this.
 */
#ifndef SHIM_FILES_WRITE_ORDER_H
#define SHIM_FILES_WRITE_ORDER_H

#include <stdint.h>

/* Returns what to end; 0 if the order of this write is of no interest. */
uint32_t sr_write_begins(int fd, uint32_t thread);
void sr_write_ends(uint32_t write, uint32_t thread);

#endif
