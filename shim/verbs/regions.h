/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * regions.h: memory that peers write, in a recorded or replayed process: between
 * the verbs and shim/exposed, which knows pages and faults only.
 *
 * What is registered with remote write or atomic access (or so that a memory
 * exposed region may be bound in it), and whatever shares a page with that, is an exposed region.
 * Where the pages cannot be frozen, a copy is kept, and what differs from it at
 * the return of a call is recorded there.  The trace says which, and why.
 *
 * A process that never registers such memory pays a test of sr_regions_on.
 */
#ifndef SHIM_VERBS_REGIONS_H
#define SHIM_VERBS_REGIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "logd/base/compiler.h"
#include "shim/core/call.h"
#include "shim/core/settings.h"
#include "shim/exposed/exposed.h"
#include "shim/verbs/region_records.h"

/* There is, or was, an exposed region. */
extern bool sr_regions_on SR_HIDDEN;

/* patch: the program's instructions may be replaced (exposed region/sites.h). */
void sr_regions_start(enum sr_regions_mode mode, bool patch);
/* Those that a replay has. */
void sr_regions_start_replay(const struct sr_exposed_hooks *of_replay);

/* Memory is about to be unmapped or mapped over. */
void sr_regions_mapping_ends(void *addr, size_t size);

/* ------------------------------------------------------------ registration */

/* Recording, before memory is registered; access 0: only if it shares a page with an exposed region. */
void sr_regions_add(struct sr_exposed_region *w, void *addr, size_t length, int access);
/* No longer registered. */
void sr_regions_drop(struct sr_exposed_region *w);
/* Cannot be frozen: a registration that exists already, at the program's address. */
void sr_regions_compare(struct sr_exposed_region *w, void *addr, size_t length,
			enum sr_exposed_refusal why);

/* Replay: what a record of a region says.  False: it cannot be done. */
struct sr_region_payload;
bool sr_regions_replay_region(const struct sr_region_payload *region);

/* ------------------------------------------------------------------ calls */

/*
 * Exposed region memory that is open to the kernel for the length of a call.  As it was at
 * its beginning: what tells where it is may be written by the call.
 */
struct sr_pinned {
	size_t n, room;
	struct iovec *pieces, few[4];
	uint64_t *arguments; /* of which some lead elsewhere meanwhile */
	uint32_t arguments_n;
	bool wakes;          /* whoever sleeps at those addresses */
};

static inline void sr_pinned_none(struct sr_pinned *p)
{
	p->n = 0;
}

/* Does it lie on a page that is an exposed region because of other things there? */
static inline bool sr_regions_is_near(const void *addr)
{
	return sr_regions_on && sr_exposed_is_partial(addr);
}

/*
 * What the program gives to a call, for its record: where it is, or a copy of it at `room` if it lies among
 * other things on a exposed region's page, where each word that is read takes a fault.
 */
static inline const void *sr_regions_see(const void *addr, void *room, size_t length)
{
	return sr_regions_is_near(addr) && sr_exposed_copy_unregistered(addr, room, length) ? room : addr;
}

/* Around each recorded or replayed call, if sr_regions_on. */
void sr_regions_call_begins(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p);
void sr_regions_call_ends(struct sr_pinned *p);

/*
 * What the kernel is given is not closed to it.  In a process with threads arguments may
 * be other addresses of the same memory until it is unpinned.
 */
void sr_regions_pin(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p);
/* Of a system call that is not described: whatever may be an address in it. */
void sr_regions_pin_words(const uint64_t a[6], struct sr_pinned *p);
void sr_regions_unpin(struct sr_pinned *p);

/* Where the bytes are that are about to be sent, as far as the program knows them. */
const void *sr_regions_sent(const void *p, size_t length);

/* The counts, as a record: before the end of the process. */
void sr_regions_record_counts(void);

#endif
