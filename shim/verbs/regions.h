/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * regions.h: memory that peers write, in a recorded or replayed process.  It lies between the verbs and shim/exposed,
 * which knows pages and faults only.
 *
 * Memory that is registered for remote writes or atomics (or so that a memory window may be bound in it) becomes an
 * exposed region, and so does a registration that shares a page with one.  Where pages cannot be protected, a copy is
 * compared at each call, and what differs is recorded there.  The trace says which, and why.
 *
 * A process that never registers such memory only tests sr_regions_on.
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

/* patch: instructions of the program may become probes. */
void sr_regions_start(enum sr_regions_mode mode, bool patch);
/* A replay has hooks of its own. */
void sr_regions_start_replay(const struct sr_exposed_hooks *of_replay);

/* Memory is about to be unmapped, or mapped over. */
void sr_regions_mapping_ends(void *addr, size_t size);

/* ------------------------------------------------------------ registration */

/* Recording, before memory is registered.  With access 0 only what shares a page with an exposed region counts. */
void sr_regions_add(struct sr_exposed_region *w, void *addr, size_t length, int access);
/* The memory is not registered any more. */
void sr_regions_drop(struct sr_exposed_region *w);
/* The memory cannot be protected: it is registered already, at the program's address. */
void sr_regions_compare(struct sr_exposed_region *w, void *addr, size_t length,
			enum sr_exposed_refusal why);

/* Replay: does what a record of a region says.  False: it cannot be done. */
struct sr_region_payload;
bool sr_regions_replay_region(const struct sr_region_payload *region);

/* ------------------------------------------------------------------ calls */

/*
 * Exposed memory that the kernel may access for the length of a call.  This is a copy of where it is: the call may
 * write to what says so.
 */
struct sr_pinned {
	size_t n, room;
	struct iovec *pieces, few[4];
	uint64_t *arguments; /* some of them are other addresses during the call */
	uint32_t arguments_n;
	bool wakes;          /* wake threads that wait at those addresses */
};

static inline void sr_pinned_none(struct sr_pinned *p)
{
	p->n = 0;
}

/* Does it lie on a page that no region has as a whole? */
static inline bool sr_regions_is_near(const void *addr)
{
	return sr_regions_on && sr_exposed_is_partial(addr);
}

/*
 * What the program gives to a call, for its record.  It may lie among other data on the page of an exposed region,
 * where each word that is read takes a fault; then it is copied to `room`.
 */
static inline const void *sr_regions_see(const void *addr, void *room, size_t length)
{
	return sr_regions_is_near(addr) && sr_exposed_copy_unregistered(addr, room, length) ? room : addr;
}

/* Around each recorded or replayed call, if sr_regions_on. */
void sr_regions_call_begins(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p);
void sr_regions_call_ends(struct sr_pinned *p);

/*
 * Makes what a call is given accessible to the kernel.  In a process with threads arguments may be other addresses of
 * the same memory until it is unpinned.
 */
void sr_regions_pin(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p);
/* The same for a system call that is not described: whatever may be an address in it. */
void sr_regions_pin_words(const uint64_t a[6], struct sr_pinned *p);
void sr_regions_unpin(struct sr_pinned *p);

/* Where the bytes are that are about to be sent, as far as the program knows them. */
const void *sr_regions_sent(const void *p, size_t length);

/* Records the counts, before the process ends. */
void sr_regions_record_counts(void);

#endif
