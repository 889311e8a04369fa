/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * memory.h: gives a program's memory pages of the fabric.
 *
 * A network card writes to the pages that were pinned when the region was registered, whatever
 * becomes of the addresses. So the device replaces a program's private pages by pages of the
 * fabric, with the same contents, when they are registered, and gives it private pages again when
 * no region has them any more.  A kernel's pages of a program can be dropped (MADV_DONTNEED) while
 * they are registered, and the card keeps its own; these here cannot.  In a fabric of one process
 * the device uses the addresses, and nothing is replaced.
 */
#ifndef SOFTDEV_MEMORY_H
#define SOFTDEV_MEMORY_H

#include "fabric.h"

/*
 * Fills the pieces of the range, at most SD_PIECES.  Returns their number, or -EFAULT if a page may
 * not be read (or written, if `writes`), -ENOMEM.  Memory that is shared already stays as it is,
 * and is foreign.
 */
int sd_memory_pin(const void *addr, size_t length, bool writes, struct sd_piece *pieces);

/* Of a region that was removed: its foreign pieces. */
void sd_memory_unpin(const struct sd_piece *pieces, uint32_t n);

#endif
