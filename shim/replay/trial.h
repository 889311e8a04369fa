/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * trial.h: would the program wait, had a load found what was there before?  Or would it go on to a certain access, had it found
 * something else?
 *
 * A watched replay with a question (struct sr_watch_trial) goes on as recorded up to that load.  The load finds the bytes that
 * were there before they last changed; nothing new enters from there on.  If the same load is done again before the thread's next
 * call that brings something, the program waits: watch.c reports a poll.  In either case the process ends then.
 *
 * With an access that is wanted everything enters as recorded, but for the bytes in question, which stay as the load found them.  The
 * process ends at that access, or at the thread's next call.
 */
#ifndef SHIM_REPLAY_TRIAL_H
#define SHIM_REPLAY_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/trace/exposed_event.h"
#include "replay/abi/watch.h"
#include "shim/core/call.h"
#include "shim/core/thread.h"

/* Before the program runs. */
void sr_trial_start(const struct sr_watch_trial *question);

/* Has the load been done?  Then the thread has left its recording. */
bool sr_trial_has_begun(void);
/* ... or is it, as yet, done as recorded, up to an access that is wanted?  The process ends at its next call. */
bool sr_trial_awaits_access(const struct sr_thread *t);

/*
 * Values of peers are about to be put into memory, or (values_n 0) none are, at this fault of the thread.  At the load in question
 * they are changed.
 */
void sr_trial_values(const struct sr_thread *t, uint64_t fault, struct sr_exposed_value *values, uint32_t values_n);

/* A clock has shown this time: it goes on from there. */
void sr_trial_clock(enum sr_call_number n, const uint64_t *a, uint64_t result);

/* Answers a call by which time passes; does not return from another one. */
uint64_t sr_trial_call(const struct sr_thread *t, enum sr_call_number n, uint64_t *a);

/* This is the access that is wanted. */
bool sr_trial_wants(const struct sr_watch_access *a);
/* This load waits for the bytes to change. */
bool sr_trial_asks(const struct sr_watch_access *load);
void sr_trial_end(void) __attribute__((noreturn));

#endif
