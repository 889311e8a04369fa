/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watched.h: what the CPUs of the ranks loaded and stored of memory that requests access, as watched replays found it
 * (replay/abi/watch.h).
 */
#ifndef REPLAY_ANALYSIS_RACES_WATCHED_H
#define REPLAY_ANALYSIS_RACES_WATCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "replay/abi/watch.h"
#include "replay/analysis/log/keymap.h"
#include "replay/analysis/races/model.h"

struct sr_race_watched {
	uint32_t rank, number; /* number: in the order in which the replay found it */
	struct sr_watch_access a;
};

struct sr_race_watches {
	struct sr_race_watched *all; /* by rank, thread, and where it belongs */
	size_t n, room;
	size_t *next;    /* by the first of each rank and thread: how many were given */
	uint16_t *doubts; /* by rank: SR_DOUBT_* */
	size_t reached; /* trials that came to the access that they were to (struct sr_watch_trial) */
	bool are_partial; /* other code may have accessed the memory, too (hooked.h) */
	struct sr_keymap beside; /* pieces of a thread's code between two calls during which others ran (SR_WATCH_BESIDE) */
	struct sr_keymap stored; /* words that a rank's CPU stored to */
	struct sr_keymap polls; /* instructions that wait for what they load to change */
};

/* A file that the watched replay of a rank has written.  0, -ENOMEM or -EIO. */
int sr_race_watches_read(struct sr_race_watches *s, uint32_t rank, const char *path);
/* One that was found.  0 or -ENOMEM. */
int sr_race_watches_keep(struct sr_race_watches *s, uint32_t rank, const struct sr_watch_access *found);
/* When all are read.  0 or -ENOMEM. */
int sr_race_watches_sort(struct sr_race_watches *s);
/* The next pass over the trace begins: none was given yet. */
void sr_race_watches_restart(struct sr_race_watches *s);
void sr_race_watches_free(struct sr_race_watches *s);

/*
 * The next access of this thread that comes before this fault after this call, and was not asked for yet; NULL: none.
 * An access at a fault comes after the values that enter there.
 */
const struct sr_race_watched *sr_race_watches_due(struct sr_race_watches *s, uint32_t rank, uint32_t thread, uint64_t sn,
						  uint32_t fault);

/* Is there one that comes before this call? */
bool sr_race_watches_are_due(const struct sr_race_watches *s, uint32_t rank, uint32_t thread, uint64_t sn);

/* Is it known which calls of other threads what this thread did between this call and its next one came before? */
bool sr_race_watches_are_ordered(const struct sr_race_watches *s, uint32_t rank, uint32_t thread, uint64_t sn);

/* Did one thread of the rank run at a time? */
bool sr_race_watches_take_turns(const struct sr_race_watches *s, uint32_t rank);

/* The load or store of this instruction at this fault; NULL: none was seen. */
const struct sr_race_watched *sr_race_watches_find(const struct sr_race_watches *s, uint32_t rank, enum sr_watch_kind kind, uint32_t thread,
						   uint64_t sn, uint32_t fault, uint64_t pc);

/* Did this thread load from this address after this call? */
bool sr_race_watches_have_load(const struct sr_race_watches *s, uint32_t rank, uint32_t thread, uint64_t sn, uint64_t address);

/* Is each load and store of the rank known, and where it was?  s may be NULL. */
bool sr_race_watches_see_all(const struct sr_race_watches *s, size_t rank);
/* Has the rank's CPU stored to these bytes, or is that not known? */
bool sr_race_watches_may_store(const struct sr_race_watches *s, uint32_t rank, uint64_t begin, uint64_t end);

/* Does this instruction, in any rank, wait for what it loads to change? */
bool sr_race_watches_is_poll(const struct sr_race_watches *s, uint64_t pc);

/*
 * Writes the file for the replay of a rank: the memory of it that other accesses than its CPU's are to.  The number of
 * ranges, or -errno.
 */
int sr_race_watches_ask(const struct sr_race_model *m, uint32_t rank, const char *path);
/* ... for the replay that tries whether this load waits.  0 or -errno. */
int sr_race_watches_try(const struct sr_access *load, const char *path);

/* ... whether the program comes to an access. */
int sr_race_watches_try_access(const struct sr_watch_trial *trial, const char *path);

#endif
