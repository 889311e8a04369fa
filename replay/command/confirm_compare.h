/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * confirm_compare.h: what differs between two recorded runs of one job.
 *
 * Compared is which calls the threads make, and where, without those by which they wait; and what
 * the program puts out. Values that come from time or chance differ in every run, and are not
 * looked at.
 */
#ifndef REPLAY_COMMAND_CONFIRM_COMPARE_H
#define REPLAY_COMMAND_CONFIRM_COMPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first difference of a thread. */
struct sr_run_difference {
	int32_t rank;
	uint32_t thread;
	uint64_t at;           /* how many calls are the same before */
	uint64_t sn, other_sn; /* 0: the thread makes no call more there */
	char place[256], other_place[256];
};

struct sr_run_differences {
	struct sr_run_difference *calls, *output;
	size_t calls_n, calls_room, output_n, output_room;
};

/* 0, or SR_EXIT_FAILED after a message.  To be freed in both cases. */
int sr_runs_compare(struct sr_run_differences *d, const char *dir, const char *other_dir);
void sr_run_differences_free(struct sr_run_differences *d);

/*
 * Leaves out what differs as early between two runs in the same order (`noise`) as well.
 */
void sr_run_differences_drop(struct sr_run_differences *d, const struct sr_run_differences *noise);

#endif
