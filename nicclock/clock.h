/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock.h: the clock of a recorded process, and how it learns of other clocks.
 *
 * A pure library: no verbs, no system calls, no memory of its own.  The shim
 * gives it memory, moves the words by RDMA, and serialises what is said to be
 * serialised.  Used while recording, on the data path.
 *
 * How orders are found
 * --------------------
 * Each member of the group numbers its own events: posts, and what it finds
 * out.  An event number says "the process came so far".  Next to the data that
 * a member makes visible it leaves the number, in one 8-byte word that names
 * the member as well:
 *
 *   - A request that changes memory elsewhere (WRITE, SEND, atomics) is preceded
 *     on its queue pair by a WRITE of the number to a cell in the target's clock
 *     region.  Queue pairs keep order, so whoever can see the data can see the
 *     cell.  There is one cell for each queue pair: two queue pairs of one
 *     member would overwrite each other's cell out of order.  It has two words,
 *     which are written in turn.
 *   - The process's own number is the first word of its own region, raised
 *     before the program goes on, for readers of what its CPU stored.
 *
 * Who looks at data looks at the clock region of the same memory afterwards (by
 * a READ behind its READ, or with the CPU), and notes each word that has changed
 * since it last looked: an order.
 *
 * The words carry one component, not the vector: a vector is the join of the
 * vectors at those events, and every member's orders are in the trace.  So it
 * is computed there (closure.h); what goes over the wire is 8 bytes a request
 * whatever the size of the group, which any device takes inline.
 *
 * Posted is not landed.  A cell that says n proves that n was posted and that
 * what was posted before n on that queue pair has landed; the data of n itself
 * may or may not be there.
 *
 * Why there can be no cycle: an order "i:n before j:m" is found after n began
 * and numbered m after it was found, so all orders agree with real time.
 */
#ifndef NICCLOCK_CLOCK_H
#define NICCLOCK_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Members are numbered from 0 in the order of their ranks. */
#define SR_CLOCK_MEMBERS    64

/* ------------------------------------------------------------------- words */

/*
 * A word: bit 63 set (memory that was never written is no word), bit 62 set in
 * a process's own clock, bits 56 to 61 the member, 40 to 55 a check, below them
 * the event number.
 *
 * The check is for devices that copy bytes: Soft-RoCE does, and who looks while a
 * clock goes from 255 to 256 may find 511 or 0.  Such a word is torn, and says
 * nothing but that something new is just coming.  The number before it is in the
 * other word of the cell (or, of a process's own, in `before`), and it suffices:
 * the data of the new one has not landed yet.
 */
#define SR_CLOCK_EVENT_BITS 40
#define SR_CLOCK_EVENT_MASK ((1ull << SR_CLOCK_EVENT_BITS) - 1)

/* All of a word but its check, in; with it, out.  Every bit of it has its share in the check. */
static inline uint64_t sr_clock_checked(uint64_t word)
{
	return word | word * 0x9e3779b97f4a7c15ull >> 48 << SR_CLOCK_EVENT_BITS;
}

static inline uint64_t sr_clock_cell_word(int member, uint64_t event)
{
	return sr_clock_checked(1ull << 63 | (uint64_t)member << 56 | event);
}

static inline uint64_t sr_clock_own_word(int member, uint64_t event)
{
	return sr_clock_checked(3ull << 62 | (uint64_t)member << 56 | event);
}

static inline bool sr_clock_is_torn(uint64_t word)
{
	return word >> 63 && sr_clock_checked(word & ~(0xffffull << SR_CLOCK_EVENT_BITS)) != word;
}

static inline bool sr_clock_is_word(uint64_t word)
{
	return word >> 63 && !sr_clock_is_torn(word);
}

static inline bool sr_clock_is_own(uint64_t word)
{
	return word >> 62 & 1;
}

static inline int sr_clock_member(uint64_t word)
{
	return (int)(word >> 56 & (SR_CLOCK_MEMBERS - 1));
}

static inline uint64_t sr_clock_event(uint64_t word)
{
	return word & SR_CLOCK_EVENT_MASK;
}

/* ------------------------------------------------------------------ regions */

#define SR_CLOCK_CELL_WORDS  2

/*
 * The clock region of a process, one for all its protection domains (each
 * registers it anew).  In an outsider `own` stays 0 and nothing looks at it.
 *
 * What others read begins at `own`, which shares no cache line with the cells:
 * the process raises it at every event, the device writes the cells.
 */
struct sr_clock_region {
	uint64_t unused[5];
	_Atomic uint64_t own;
	_Atomic uint64_t before; /* the last one but one of own, or that */
	_Atomic uint64_t cells;  /* in use, and free ones below those; it only grows */
	_Atomic uint64_t cell[][SR_CLOCK_CELL_WORDS];
};

#define SR_CLOCK_READ_OFFSET offsetof(struct sr_clock_region, own)

/* Words of a READ in front of the cells: own, before, cells. */
#define SR_CLOCK_HEAD_WORDS  3

static inline size_t sr_clock_words(uint32_t cells)
{
	return SR_CLOCK_HEAD_WORDS + (size_t)SR_CLOCK_CELL_WORDS * cells;
}

static inline size_t sr_clock_region_bytes(uint32_t cells)
{
	return sizeof(struct sr_clock_region) + cells * SR_CLOCK_CELL_WORDS * sizeof(uint64_t);
}

/* Where the n-th clock of a queue pair goes. */
static inline size_t sr_clock_cell_offset(uint32_t cell, uint32_t n)
{
	return offsetof(struct sr_clock_region, cell) +
	       ((size_t)cell * SR_CLOCK_CELL_WORDS + n % SR_CLOCK_CELL_WORDS) * sizeof(uint64_t);
}

static inline size_t sr_clock_read_bytes(uint32_t cells)
{
	return sr_clock_words(cells) * sizeof(uint64_t);
}

/* How many are in use there, by what a READ brought. */
static inline uint64_t sr_clock_cells_in_use(const _Atomic uint64_t *words)
{
	return atomic_load_explicit(&words[2], memory_order_relaxed);
}

/*
 * Before a queue pair can receive: its cell is in use from now on.  Readers see
 * the new count at the latest with the first data that came through it.
 */
void sr_clock_region_use_cell(struct sr_clock_region *region, uint32_t cell);

/* ----------------------------------------------------------- a member's clock */

struct sr_clock {
	struct sr_clock_region *region; /* zeroed by the caller; own holds the number */
	int member;
	/* The highest number found of each member. */
	_Atomic uint64_t known[SR_CLOCK_MEMBERS];
};

void sr_clock_init(struct sr_clock *c, struct sr_clock_region *region, int member);

/* The last event. */
uint64_t sr_clock_now(const struct sr_clock *c);

/*
 * A new event, and its number.  From any thread.  Events of one queue pair must
 * be numbered in the order of their posts: its lock on posts is held.
 */
uint64_t sr_clock_tick(struct sr_clock *c);

/* --------------------------------------------------------------- finding orders */

enum sr_order_via {
	SR_ORDER_OWN = 0,  /* read in that member's own region: its CPU had come so far */
	SR_ORDER_CELL = 1, /* read in a cell: what its queue pair had carried before has landed */
};

/* "What `member` did up to `event` happened before this." */
struct sr_order {
	uint64_t event;
	uint8_t member;
	uint8_t via; /* enum sr_order_via */
};

/* The most that one merge finds. */
#define SR_CLOCK_ORDERS 32

/*
 * What a process saw last of one region, its own or another's.  Zeroed by its
 * owner, with room for as many cells as will ever be looked at.
 */
struct sr_clock_view {
	uint32_t cells; /* room */
	_Atomic uint64_t own;
	_Atomic uint64_t seen[]; /* as the region has them */
};

static inline size_t sr_clock_view_bytes(uint32_t cells)
{
	return sizeof(struct sr_clock_view) + cells * SR_CLOCK_CELL_WORDS * sizeof(uint64_t);
}

/*
 * Does the region hold anything new?  `words` begins with `own`, as a READ
 * brings it or as it lies in the region, and has `cells` cells.  From any
 * thread, without a lock: if another thread has taken notice of a word, that
 * happened at an event before now.
 */
bool sr_clock_is_news(const struct sr_clock *c, const struct sr_clock_view *v,
		      const _Atomic uint64_t *words, uint32_t cells);

/*
 * Takes notice: puts up to `room` (3 to SR_CLOCK_ORDERS) orders into `orders`, and into *event the
 * number of a new event, that of having found them.  Returns how many; if less
 * room is left than a cell may need (SR_CLOCK_CELL_WORDS) there may be more.  With 0, nothing has happened.
 *
 * The caller has looked at the data before, and serialises the calls for one
 * view.
 */
uint32_t sr_clock_merge(struct sr_clock *c, struct sr_clock_view *v, const _Atomic uint64_t *words,
			uint32_t cells, struct sr_order *orders, uint32_t room, uint64_t *event);

/*
 * Did the READ of `cells` cells miss any, or find both words of one being written?
 * Then an order may have been missed.
 */
bool sr_clock_is_short(const _Atomic uint64_t *words, uint32_t cells);

#endif
