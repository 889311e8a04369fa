/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * replay_race.h: `sreplay replay --race`: where the two accesses of a race are in a trace, for gdb
 * to stop there, or to be printed with what is around them.
 */
#ifndef REPLAY_COMMAND_REPLAY_RACE_H
#define REPLAY_COMMAND_REPLAY_RACE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct sr_replay_access {
	int32_t rank;
	uint32_t thread;
	uint64_t sn; /* of its call, or of the one in front of a load */
	uint64_t
	    pc; /* a load's instruction; 0: it is made at the call, or, a store, in front of it */
	uint64_t begin, end; /* memory */
};

struct sr_replay_race {
	char dir[PATH_MAX]; /* the trace that is replayed */
	struct sr_replay_access access[2];
	char *stops; /* for gdb: see sr_replay_race_arguments() */
};

/*
 * which: "N", as recorded, or "N:ab", "N:ba", as sreplay confirm has recorded it in this order.
 * dir: of the trace with races.json.  False after a message.
 */
bool sr_replay_race_find(struct sr_replay_race *r, const char *dir, const char *which);

/*
 * The arguments of gdb, with those that stop it at this rank's accesses first.  NULL after a
 * message: the rank makes none of them.
 */
char **sr_replay_race_arguments(struct sr_replay_race *r, int32_t rank, char **arguments);

/* Prints both accesses, their callers, and the calls around them.  The exit status. */
int sr_replay_race_print(const struct sr_replay_race *r, const char *dir, const char *which);

#endif
