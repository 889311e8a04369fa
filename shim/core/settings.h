/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * settings.h: the environment variables by which a recording is asked for.
 * They are the plain interface (LD_PRELOAD and these); `sreplay record` sets them.
 */
#ifndef SHIM_CORE_SETTINGS_H
#define SHIM_CORE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "logd/ring/protocol.h"

#define SR_ENV_TRACE   "SREPLAY_TRACE"  /* the trace directory, absolute; unset: inert */
#define SR_ENV_RANK    "SREPLAY_RANK"   /* default: the launcher's, else 0 */
#define SR_ENV_GROUP   "SREPLAY_GROUP"  /* ranks to record, "0,2-5"; default: all */
#define SR_ENV_SOCKET  "SREPLAY_SOCKET" /* the daemon's, if it is not the usual one */
#define SR_ENV_RING    "SREPLAY_RING"   /* bytes of a thread's ring; default 4 MiB */
#define SR_ENV_LOSSY   "SREPLAY_LOSSY"  /* 1: drop records rather than wait when a ring is full */
#define SR_ENV_DIRECT  "SREPLAY_ALLOW_DIRECT" /* 1: let direct verbs through, unrecorded */
#define SR_ENV_FILES   "SREPLAY_FILES"        /* 1: keep the content of the files that are read */

#define SR_ENV_EXPOSED  "SREPLAY_EXPOSED"       /* frozen (default), compare, off: see regions.h */
#define SR_ENV_START   "SREPLAY_FROM_START" /* 1: record what has not loaded libibverbs yet, too */
#define SR_ENV_SYSCALL_TRAP     "SREPLAY_SYSCALL_TRAP"    /* 0: no net at the system-call level (trap.h) */

#define SR_ENV_PROBES   "SREPLAY_PROBES"  /* 0: the program's code is left as it is (exposed region/sites.h) */
#define SR_ENV_TSC     "SREPLAY_TSC"    /* native: the time-stamp counter is not recorded (tsc.h) */

#define SR_ENV_THREADS "SREPLAY_THREADS" /* serial: one at a time (run_token.h); default parallel */

#define SR_ENV_KEY     "SREPLAY_KEY"    /* path of the job's key; unset: a job on one node */
#define SR_ENV_HOSTS   "SREPLAY_HOSTS"  /* its nodes' addresses, where GIDs are none */
#define SR_ENV_CLOCKS  "SREPLAY_CLOCKS" /* 1: find out who came before whom; 2: with oneself as well (tests) */

/* Set by `sreplay record`, which waits at its end for the processes that have it. */
#define SR_ENV_SESSION "SREPLAY_SESSION" /* SR_SESSION_BYTES in hexadecimal */

struct sr_settings {
	const char *trace; /* NULL: nothing is asked for */
	int rank;
	bool in_group;
	size_t ring_bytes;
	bool lossy;
	bool allow_direct;
	int member; /* number in the group; -1: too many for clocks */
	int members; /* of the group, as far as it was said who they are; 0: it was not */
	bool clocks, clocks_with_oneself;
	const char *key, *hosts;
	bool keep_files;
	int exposed; /* enum sr_regions_mode */
	bool from_start;
	bool trap;
	bool native_tsc;
	bool patch;
	bool serial; /* threads */
	uint8_t session[SR_SESSION_BYTES]; /* zeros: none */
};

/* 0, or -EINVAL after a message on standard error that names the variable. */
int sr_settings_read(struct sr_settings *settings);

#endif
