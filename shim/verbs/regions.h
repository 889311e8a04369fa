/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * regions.h: memory that peers write, in a recorded or replayed process.  This module connects
 * the verbs with shim/exposed, which handles pages and faults only.
 *
 * Memory registered for remote writes, remote atomics or memory-window binding becomes an exposed
 * region, and so does a registration that shares a page with one.  If pages cannot be protected,
 * the shim compares them with a copy at each call and records the differences there.  The trace
 * says which regions these are, and why.
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

/* The process has, or had, an exposed region. */
extern bool sr_regions_on SR_HIDDEN;

/* patch: the shim may replace instructions of the program by probes.  together: see struct sr_exposed_hooks. */
void sr_regions_start(enum sr_regions_mode mode, bool patch, bool together);
/* A replay uses its own hooks. */
void sr_regions_start_replay(const struct sr_exposed_hooks *of_replay);

/*
 * Other processes may have this memory, too: it is an exposed region until it is unmapped.  empty: nobody has stored there so far.
 * False: it cannot be one.
 */
bool sr_regions_share(void *addr, size_t length, bool empty);

/* The memory is about to be unmapped, or replaced by another mapping. */
void sr_regions_mapping_ends(void *addr, size_t size);

/* ------------------------------------------------------------ registration */

/*
 * Recording: called before memory is registered.  With access 0 it becomes an exposed region only
 * if it shares a page with one.
 */
void sr_regions_add(struct sr_exposed_region *w, void *addr, size_t length, int access);
/* The device has refused it. */
void sr_regions_take_back(struct sr_exposed_region *w);
/* The memory is no longer registered. */
void sr_regions_drop(struct sr_exposed_region *w);
/*
 * A call with unexposes= (calls.def) is about to change what is exposed by this function, which gets the two.  With threads it
 * is called when the call has been recorded, since others may have gone on between the call's two numbers; else at once.
 */
void sr_regions_change_at_return(const struct sr_call_desc *d, void (*change)(struct ibv_mr *mr, struct sr_exposed_region *old),
				 struct ibv_mr *mr, struct sr_exposed_region *old);
/* Before each call: what regions have lost to a stack beside them is compared from now on. */
void sr_regions_compare_lost(void);
/* For memory that cannot be protected, such as memory registered at the program's address. */
void sr_regions_compare(struct sr_exposed_region *w, void *addr, size_t length,
			enum sr_exposed_refusal why);

/* Replay: adds or removes a region as recorded.  Returns false if that is impossible. */
struct sr_region_payload;
bool sr_regions_replay_region(const struct sr_region_payload *region);

/* ------------------------------------------------------------------ calls */

/* So many arguments of a call may have copies: an address, its length, and data. */
#define SR_BOUNCES 3

/* Memory of the program's for which the call has a copy instead. */
struct sr_bounce {
	uint8_t *copy, *before; /* before: what the program's memory held when the call began */
	size_t length;
	uint64_t *argument; /* points to the copy during the call */
	void *addr;         /* and afterwards to the program's memory again */
};

/* The same for a buffer that the call outputs. */
struct sr_output_copy {
	char *memory; /* NULL: there is none */
	uint64_t *argument, real;
};

/* The same for a list of pieces, or messages (lists.h). */
struct sr_list_copy {
	char *memory; /* NULL: there is none */
	uint64_t *argument, real;
	bool counted;          /* the next argument counts the pieces ... */
	uint64_t count;        /* ... of which the program's list has so many */
	size_t messages, size; /* so many headers, each of this size, that the kernel changes */
};

/*
 * Exposed memory that the kernel may access during a call.  It has its own list of addresses,
 * because the call may overwrite the program's list.
 */
struct sr_pinned {
	size_t n, room;
	struct iovec *pieces, few[4];
	uint64_t *arguments; /* during the call, some of them are aliases */
	uint32_t arguments_n;
	bool locks;          /* the call is one of libc's at locks */
	bool wakes;          /* afterwards, wake the threads that wait at the real addresses */
	bool blocks;         /* the call may wait, while other threads run */
	bool outputs;        /* the call writes what is there, so the program has loaded it */
	struct sr_bounce bounces[SR_BOUNCES];
	uint32_t bounces_n;
	struct sr_output_copy output;
	struct sr_list_copy list;
	uintptr_t stack;     /* above are the program's frames only; UINTPTR_MAX: not known */
};

static inline void sr_pinned_none(struct sr_pinned *p)
{
	p->n = 0;
	p->bounces_n = 0;
	p->output.memory = NULL;
	p->list.memory = NULL;
	p->stack = UINTPTR_MAX;
}

/* Does the address lie on a partially registered page? */
static inline bool sr_regions_is_near(const void *addr)
{
	return sr_regions_on && sr_exposed_is_partial(addr);
}

/*
 * Returns an argument of a call for its record.  If it lies on a partially registered page, where
 * each word read costs a fault, it is copied to `room`.
 */
static inline const void *sr_regions_see(const void *addr, void *room, size_t length)
{
	return sr_regions_is_near(addr) && sr_exposed_copy_unregistered(addr, room, length) ? room : addr;
}

/* Called around each recorded or replayed call, if sr_regions_on. */
void sr_regions_call_begins(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p);
void sr_regions_call_ends(struct sr_pinned *p);
/* At its end: what sr_regions_change_at_return() has left. */
void sr_regions_change_now(void);

/*
 * Makes the memory of a call's arguments accessible to the kernel.  In a process with threads,
 * arguments may be aliases of the same memory until it is unpinned.
 */
void sr_regions_pin(const struct sr_call_desc *d, uint64_t *a, struct sr_pinned *p);
/* The same for an undescribed system call: treats every argument as a possible address. */
void sr_regions_pin_words(const uint64_t a[6], struct sr_pinned *p);
/* The same for memory that the arguments do not lead to: piece by piece, after pin_none. */
void sr_regions_pin_none(struct sr_pinned *p);
void sr_regions_pin_more(struct sr_pinned *p, const void *addr, size_t length);
void sr_regions_unpin(struct sr_pinned *p);

/* The bytes that a request is about to send, as the program has seen them. */
const void *sr_regions_sent(const void *p, size_t length);
uint64_t sr_regions_checksum(const void *p, size_t length, uint64_t seed);

/* Called before the process ends: records the counts. */
void sr_regions_record_counts(void);

#endif
