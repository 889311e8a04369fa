/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * prefault.h: a thread that faults in the pages of large arrays (large.h) while another one fills the part in front of them.  The
 * kernel clears each page, and in a virtual machine the hypervisor may have to bring it: up to a third of a search in one thread.
 */
#ifndef REPLAY_ANALYSIS_LOG_PREFAULT_H
#define REPLAY_ANALYSIS_LOG_PREFAULT_H

#include <stddef.h>

/* From now on; once.  Without threads, or before Linux 5.14, nothing happens. */
void sr_prefault_start(void);

/* These bytes, which can be written, are filled from now on, from their beginning.  Nothing happens if that was not started. */
void sr_prefault(void *at, size_t bytes);

#endif
