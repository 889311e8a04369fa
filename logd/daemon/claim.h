/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * claim.h: a process's place in the trace, made by a thread of its own.
 *
 * Directories are made and libraries are read on file systems that may be slow, or not answer at
 * all.  Nobody but the process itself waits for that.  The functions are for the daemon's main
 * thread.
 */
#ifndef LOGD_DAEMON_CLAIM_H
#define LOGD_DAEMON_CLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

#include "logd/daemon/hello.h"

struct claim;

/*
 * Begins to claim the place for the process pid.  Takes body_fd over, on success.  event_fd (an
 * eventfd) is written to when it is done.  0 or -errno.
 */
int claim_start(struct claim **claim, pid_t pid, const struct sr_message *hello, int body_fd,
		int event_fd);

bool claim_is_done(const struct claim *c);
/* A number that grows while the claim gets on. */
unsigned int claim_steps(const struct claim *c);

/*
 * Of a claim that is done: moves its place out, and frees it.  0; or -errno, perhaps a sentence.
 */
int claim_finish(struct claim *c, struct trace_place *place, char *error, size_t error_size);

/* Waits until then for a claim to be done, and frees it.  False: it is not done. */
bool claim_drop(struct claim *c, const struct timespec *until);

#endif
