/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * refused.h: memory that the kernel gives in one run and refuses in the other: it depends on the machine's memory, and on what the
 * user may have.
 *
 * A large mapping that is refused in the recording is a record, by the number of the thread's mappings since its last recorded call, and a
 * replay refuses it, too.  All others a replay asks for so that a smaller machine, and another user, get them.
 *
 * Any thread, for itself.
 */
#ifndef SHIM_CALLS_TRAP_REFUSED_H
#define SHIM_CALLS_TRAP_REFUSED_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/calls/trap/make.h"

/* What the program asks for: mmap's arguments, before the shim changes any. */
struct sr_asked_mapping {
	uint64_t size, protection, flags;
	uint32_t number;
};

/* Before the mapping is made.  True: a replay refuses it, with *result. */
bool sr_mapping_is_refused(const struct sr_trapped *c, struct sr_asked_mapping *asked, long *result);
/* Behind it. */
void sr_mapping_result(const struct sr_trapped *c, const struct sr_asked_mapping *asked, long result);

/* In a replay: the flags of a mapping that needs neither locked memory nor, if it is private, a promise of the kernel's. */
uint64_t sr_mapping_flags_to_ask(uint64_t flags);

#endif
