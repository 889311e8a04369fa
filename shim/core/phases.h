/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * phases.h: behind which calls do threads compute for long, while others wait for the run token?
 *
 * With --threads=auto threads run one at a time, except where they compute: there, one at a time would take as many times
 * as long as there are processors.  Whether code computes or waits for another thread is found out by the steps of a
 * thread that is stopped (shim/record/places.h).  What it has cost so far that others waited is kept for each call site.
 * Time alone proves little: on a slow or busy machine, or in an emulator, a few instructions take long, and so does the
 * shim's own work.  So no more than some milliseconds count between two stops that found a thread computing, and of the time
 * that passes one part in fifty may be lost.  Where more was, a thread *parts*: behind this call it goes on without the token until its next call, and the
 * trace says so.  Not where the code has atomic instructions (shim/threads/shared_code.h).
 *
 * Any thread calls this.  The figures are estimates, and a lost update is no harm.
 */
#ifndef SHIM_CORE_PHASES_H
#define SHIM_CORE_PHASES_H

#include <stdbool.h>
#include <stdint.h>

#include "logd/base/compiler.h"

/* Is there such a call site?  False if threads do not part. */
extern _Atomic bool sr_phases_any SR_HIDDEN;

/* Once: threads may part. */
void sr_phases_start(void);

/*
 * In a call site's address: behind this call threads are known to compute, or to meet only by other calls (OpenMP's).  So it
 * need not be found out, and shorter phases count as well.
 */
#define SR_PHASE_KNOWN (1ull << 63)

/*
 * Until now another thread waited so long, in the computing thread's own time, for code behind a call that returned to site.
 * now: of a clock that goes on while threads wait.
 */
void sr_phase_costs(uintptr_t site, int64_t ns, int64_t now);
/* Much has been lost there, and it is not known why, or has not been for long: a thread is to be stopped there soon. */
bool sr_phase_is_doubtful(uintptr_t site);
/* A thread was stopped there: it waited for another one, or it computed. */
void sr_phase_waits(uintptr_t site);
void sr_phase_computes(uintptr_t site, int64_t now);
/* The shim was at work for it there: that is no reason to part. */
void sr_phase_is_ours(uintptr_t site);
/* ... in code where threads may decide something by atomics: no thread parts there from now on.  Ask before what it costs to tell. */
void sr_phase_shares(uintptr_t site);
bool sr_phase_is_to_be_told(uintptr_t site);

/* Is a thread to part there? */
bool sr_phase_parts(uintptr_t site);
/* A thread had parted there, and made its next call after so much time of its own. */
void sr_phase_took(uintptr_t site, int64_t ns, int64_t now);

#endif
