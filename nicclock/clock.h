/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * clock.h: the clock of a recorded process, and how it finds out how far other clocks had come.
 *
 * A pure library: no verbs, no system calls, no memory of its own.  The shim provides memory and
 * moves the words by RDMA.  It is used while recording, on the data path; a function says where
 * its caller has to serialise calls.
 *
 * How orders are found
 * --------------------
 * Each member of the group numbers its own events: its posts, and each time that it finds orders.
 * Next to the data that a member makes visible it leaves the number of its last event, in one
 * 8-byte word that also names the member:
 *
 *   - A request that changes memory elsewhere (WRITE, SEND, atomics) is preceded on its queue pair
 *     by a WRITE of the number to a cell in the target's clock region.  Queue pairs keep
 *     order, so a process that can see the data can see the cell.  Each queue pair has a cell of
 *     its own, since two queue pairs of one member could overwrite each other's out of
 *     order.  A cell has two words, which are written in turn.  Behind each word stands another one,
 *     which only the target itself reads: what the member knew of it (picks.h).
 *   - The process's own number is the first word of its own region.  It is raised before the
 *     program goes on, for readers of what its CPU stored.
 *
 * A process that has read data then reads the clock region of the same memory (by a READ behind its
 * READ, or with the CPU).  Each word that has changed since it last did so is an order.
 *
 * The words carry one number and not a vector.  A vector is the join of the vectors at the events
 * that were found, and all members' orders are in the trace, so closure.h computes it
 * there.  On the wire a request costs 16 bytes, whatever the size of the group, which any device
 * takes inline.
 *
 * Posted does not mean landed.  A cell that holds n proves that n was posted, and that what was
 * posted before n on that queue pair has landed; the data of n may be there or not.
 *
 * Orders cannot form a cycle: "i:n before j:m" is found after n began, and m is numbered after it
 * was found, so all orders agree with real time.
 */
#ifndef NICCLOCK_CLOCK_H
#define NICCLOCK_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Members are numbered from 0 in the order of their ranks, and forked children from the last number down. */
#define SR_CLOCK_MEMBERS    64

/* ------------------------------------------------------------------- words */

/*
 * A word: bit 63 is set (memory that was never written holds no word), bit 62 is set in a process's
 * own clock, bits 56 to 61 are the member, 40 to 55 a check, and those below the event number.
 *
 * The check is for devices that copy single bytes, as Soft-RoCE does: a reader at the moment when a
 * clock goes from 255 to 256 may find 511 or 0.  Such a word is torn; it shows only that a new
 * one is being written.  The number before it is in the other word of the cell (of a process's own
 * clock, in `before`), and suffices, since the data of the new one has not landed yet.
 */
#define SR_CLOCK_EVENT_BITS 40
#define SR_CLOCK_EVENT_MASK ((1ull << SR_CLOCK_EVENT_BITS) - 1)

/* Adds the check to a word.  It depends on every other bit of the word, and of the one behind it, if there is one. */
static inline uint64_t sr_clock_checked_with(uint64_t word, uint64_t behind)
{
	uint64_t both = word ^ behind * 0xd6e8feb86659fd93ull;

	return word | (both ^ both >> 32) * 0x9e3779b97f4a7c15ull >> 48 << SR_CLOCK_EVENT_BITS;
}

static inline uint64_t sr_clock_checked(uint64_t word)
{
	return sr_clock_checked_with(word, 0);
}

/* known: the word behind it. */
static inline uint64_t sr_clock_cell_word(int member, uint64_t event, uint64_t known)
{
	return sr_clock_checked_with(1ull << 63 | (uint64_t)member << 56 | event, known);
}

static inline uint64_t sr_clock_own_word(int member, uint64_t event)
{
	return sr_clock_checked(3ull << 62 | (uint64_t)member << 56 | event);
}

static inline bool sr_clock_is_torn(uint64_t word, uint64_t behind)
{
	return word >> 63 && sr_clock_checked_with(word & ~(0xffffull << SR_CLOCK_EVENT_BITS), behind) != word;
}

static inline bool sr_clock_is_word(uint64_t word, uint64_t behind)
{
	return word >> 63 && !sr_clock_is_torn(word, behind);
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

#define SR_CLOCK_CELL_WORDS 2

/* A word of a cell, and behind it what its member knew of the process whose region it is in (picks.h). */
struct sr_clock_pair {
	_Atomic uint64_t word, known;
};

/* The two, as they were read one behind the other. */
struct sr_clock_copy {
	uint64_t word, known;
};

struct sr_clock_copy sr_clock_copy_of(const struct sr_clock_pair *w);

/*
 * The clock region of a process: one, which each of its protection domains registers.  In an
 * outsider `own` stays 0 and is not read.
 *
 * Others read it from `own` on.  That shares no cache line with the cells: the process writes it at
 * every event, and the device writes the cells.
 */
struct sr_clock_region {
	uint64_t unused[5];
	_Atomic uint64_t own;
	_Atomic uint64_t before; /* the value of own before its last one, or its last one */
	_Atomic uint64_t cells;  /* how many from 0 on are or were in use, which only grows; and flags */
	struct sr_clock_pair cell[][SR_CLOCK_CELL_WORDS];
};

#define SR_CLOCK_READ_OFFSET offsetof(struct sr_clock_region, own)

/* Flags beside `cells`.  Others can READ what the process does not see change: ever; at the moment. */
#define SR_CLOCK_UNWATCHED (1ull << 63)
#define SR_CLOCK_PASSES	   (1ull << 62)
#define SR_CLOCK_CELLS_MASK 0xffffffffull

/* Words of a READ in front of the cells: own, before, cells. */
#define SR_CLOCK_HEAD_WORDS  3

#define SR_CLOCK_CELL_BYTES (SR_CLOCK_CELL_WORDS * sizeof(struct sr_clock_pair))

static inline size_t sr_clock_region_bytes(uint32_t cells)
{
	return sizeof(struct sr_clock_region) + cells * SR_CLOCK_CELL_BYTES;
}

/* The offset in the region to which the n-th clock of a queue pair is written. */
static inline size_t sr_clock_cell_offset(uint32_t cell, uint32_t n)
{
	return offsetof(struct sr_clock_region, cell) + cell * SR_CLOCK_CELL_BYTES +
	       n % SR_CLOCK_CELL_WORDS * sizeof(struct sr_clock_pair);
}

static inline size_t sr_clock_read_bytes(uint32_t cells)
{
	return SR_CLOCK_HEAD_WORDS * sizeof(uint64_t) + cells * SR_CLOCK_CELL_BYTES;
}

/* `cells` of a region, from the words that a READ brought. */
static inline uint64_t sr_clock_cells_in_use(const _Atomic uint64_t *words)
{
	return atomic_load_explicit(&words[2], memory_order_relaxed) & SR_CLOCK_CELLS_MASK;
}

/* Has the process that the words are of neither flag? */
static inline bool sr_clock_is_watched(const _Atomic uint64_t *words)
{
	return !(atomic_load_explicit(&words[2], memory_order_relaxed) & (SR_CLOCK_UNWATCHED | SR_CLOCK_PASSES));
}

/* Any thread.  What follows in the program's code is after it for whoever reads the region. */
static inline void sr_clock_region_flag(struct sr_clock_region *region, uint64_t flag, bool on)
{
	if (on)
		atomic_fetch_or(&region->cells, flag);
	else
		atomic_fetch_and(&region->cells, ~flag);
}

/*
 * The cell is in use from now on.  To be called before its queue pair can receive; then readers see
 * the new count at the latest with the first data from that.  Any thread.
 */
void sr_clock_region_use_cell(struct sr_clock_region *region, uint32_t cell);

/* ----------------------------------------------------------- a member's clock */

struct sr_clock {
	struct sr_clock_region *region; /* zeroed by its owner; `own` holds the event number */
	int member;
	const _Atomic uint64_t *drawn; /* a number that the process's threads raise as they go on; NULL: none */
	/* The highest number found of each member. */
	_Atomic uint64_t known[SR_CLOCK_MEMBERS];
};

/* Before other threads use it. */
void sr_clock_init(struct sr_clock *c, struct sr_clock_region *region, int member,
		   const _Atomic uint64_t *drawn);

/* The number of the last event.  Any thread. */
uint64_t sr_clock_now(const struct sr_clock *c);

/*
 * Makes an event and returns its number.  Any thread.  Events of one queue pair must be numbered in
 * the order of its posts: the caller holds its lock.
 */
uint64_t sr_clock_tick(struct sr_clock *c);

/* --------------------------------------------------------------- finding orders */

enum sr_order_via {
	SR_ORDER_OWN = 0,  /* from that member's own word: its CPU had come so far */
	SR_ORDER_CELL = 1, /* from a cell: what its queue pair carried before has landed */
};

/* What `member` did up to `event` happened before the event at which the order was found. */
struct sr_order {
	uint64_t event;
	uint8_t member;
	uint8_t via; /* enum sr_order_via */
};

/*
 * When orders were found: at this event of the process, and behind this number of its threads' (sr_clock.drawn).  All that
 * was found came about before that number was read, and nobody has seen the event before: so what other threads did behind
 * the next number may follow from the event, and nothing that was found from what they did there.
 */
struct sr_clock_moment {
	uint64_t event, behind;
};

/* One merge finds at most so many. */
#define SR_CLOCK_ORDERS 32

/*
 * What a process has seen last of one region, its own or another's.  Zeroed by its owner, with
 * room for as many cells as are ever read.
 */
struct sr_clock_view {
	uint32_t cells; /* room */
	_Atomic uint64_t own;
	_Atomic uint64_t seen[]; /* the words of the cells */
};

static inline size_t sr_clock_view_bytes(uint32_t cells)
{
	return sizeof(struct sr_clock_view) + cells * SR_CLOCK_CELL_WORDS * sizeof(uint64_t);
}

/*
 * Does the region hold an order that is not known?  `words` begins with `own`, in the region itself
 * or as a READ brought it, and has `cells` cells.  The caller has read the data before.  Any
 * thread, without a lock: if another thread has found the order, its event is before this moment.
 */
bool sr_clock_is_news(const struct sr_clock *c, const struct sr_clock_view *v,
		      const _Atomic uint64_t *words, uint32_t cells);

/*
 * Finds the orders: puts up to `room` of them (3 to SR_CLOCK_ORDERS) into `orders`, and makes an event
 * at which they were found: *moment.  Returns how many; 0: there are none, and
 * no event is made.  If the room that is left is less than SR_CLOCK_CELL_WORDS, there may be more.
 *
 * The caller has read the data before, and serialises the calls for one view.
 */
uint32_t sr_clock_merge(struct sr_clock *c, struct sr_clock_view *v, const _Atomic uint64_t *words,
			uint32_t cells, struct sr_order *orders, uint32_t room,
			struct sr_clock_moment *moment);

/*
 * May an order have been missed?  The region has more cells than the READ, or both words of one are
 * torn.
 */
bool sr_clock_is_short(const _Atomic uint64_t *words, uint32_t cells);

#endif
