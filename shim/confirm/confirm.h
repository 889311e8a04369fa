/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * confirm.h: looks for the two accesses of a race among what this process does, and holds them, for
 * `sreplay confirm`.
 *
 * An instance is found by its call, call site and stack, and by how often that came, or by the
 * memory that it accesses; never by an SN.  What is held goes on after a bounded time, whatever the
 * other ranks do.
 */
#ifndef SHIM_CONFIRM_CONFIRM_H
#define SHIM_CONFIRM_CONFIRM_H

#include <stdbool.h>

#include "shim/core/engine.h"

typedef uint64_t (*sr_confirm_call)(struct sr_thread *t, enum sr_call_number n, uint64_t *a,
				    void *site);

/* At the start of a recording.  Returns what makes the program's calls from now on; `call`: what
 * did so far. */
sr_confirm_call sr_confirm_start(const char *path, int32_t rank, sr_confirm_call call);

/* Instructions become breakpoints.  Before other modules claim SIGSEGV. */
void sr_confirm_watch(void);

/* Must the program's loads from exposed memory fault, rather than go by probes? */
bool sr_confirm_needs_faults(void);

/* The process is about to end, or to go on as another program: nothing is held any more. */
void sr_confirm_end(void);

#endif
