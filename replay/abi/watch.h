/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * watch.h: the file by which `sreplay races` learns what a replayed process loads and stores.
 *
 * struct sr_watch_head, then the ranges to watch (struct sr_watch_range), ascending and apart from each other; all of
 * that by the command.  Behind them the process appends struct sr_watch_access.
 */
#ifndef REPLAY_ABI_WATCH_H
#define REPLAY_ABI_WATCH_H

#include <stdint.h>

#define SR_WATCH_PAGE 4096u

/*
 * A load of the trace that finds something else than it found (shim/replay/trial.h).  Asked is whether it waits then; or, if it finds
 * these bytes, whether the program comes to a certain access, by its instruction and place, before its thread's next call.
 */
#define SR_WATCH_TRIAL_MOST 64u /* bytes */

struct sr_watch_trial {
	uint64_t sn, address, pc;
	uint32_t thread, fault;
	uint32_t length; /* 0: nothing is asked */
	uint32_t reserved;
	uint64_t wanted_pc, wanted_begin, wanted_end; /* wanted_pc 0: does it wait?  The load finds what was there before */
	uint8_t bytes[8];
};

struct sr_watch_head {
	uint64_t ranges;
	struct sr_watch_trial trial; /* nothing is appended but a SR_WATCH_POLL if it waits, or a SR_WATCH_REACHED */
};

struct sr_watch_range {
	uint64_t begin, end;
};

enum sr_watch_kind {
	/*
	 * Found changed at the beginning of a call (fault 0), or of this access to exposed memory after it: this process
	 * has stored the bytes.  pc: an instruction that stored to their page since the call; 0: not known.
	 */
	SR_WATCH_CHANGED,
	/* An instruction that accessed the bytes at this access to exposed memory after the call, or behind it. */
	SR_WATCH_LOAD,
	SR_WATCH_STORE,
	/* This load was done again before the thread's next call: the program waits for the bytes to change. */
	SR_WATCH_POLL,
	/* From this access to exposed memory on, loads of this page may not be seen one by one.  Once a page. */
	SR_WATCH_UNSEEN,
	/*
	 * Between this call and its next one the thread let others run, or ran beside them: which of their calls its accesses came
	 * before is not known.  thread SR_WATCH_ALL_THREADS: all threads always run beside each other.
	 */
	SR_WATCH_BESIDE,
	SR_WATCH_REACHED, /* the access that a trial asks for was done */
};

#define SR_WATCH_ALL_THREADS UINT32_MAX

struct sr_watch_access {
	uint64_t sn, address;
	uint64_t pc;     /* the instruction */
	uint64_t caller; /* it is one of the C library's: where that was called, likely; else 0 */
	uint32_t thread, length;
	uint32_t fault, kind;
	uint64_t bytes;  /* the first 8 at most that a load found, or a store left */
	uint64_t before; /* of a load: these as they were before peers last changed the page there; has_before */
	uint64_t has_before;
};

#endif
