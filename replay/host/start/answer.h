/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * answer.h: answers cpuid in a traced process until the shim is loaded and does so itself.
 *
 * Before any library's code runs, the dynamic linker asks the processor which variant of functions
 * such as memcpy and sin to use.  Another variant rounds differently, and accesses exposed regions
 * in other pieces.  So the tracer, which has laid out the memory (layout.h), answers from the
 * recorded table until the shim takes over.
 */
#ifndef REPLAY_HOST_START_ANSWER_H
#define REPLAY_HOST_START_ANSWER_H

#include <stdbool.h>
#include <sys/types.h>

#include "logd/base/processor.h"

/* Waits.  True: it has stopped, with its wait status.  An end is not consumed. */
bool sr_traced_stops(pid_t child, int *status);

/*
 * Call with the child stopped and cpuid trapping.  Returns when the child has sent itself SIGSTOP
 * (shim/kernel/cpuid_trap.h), still stopped, or has ended.
 */
void sr_answer_cpuid(pid_t child, int memory, const struct sr_processor *recorded);

#endif
