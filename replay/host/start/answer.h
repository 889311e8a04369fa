/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * answer.h: a traced process, and what its cpuid answers before the shim is there to do it.
 *
 * The dynamic linker asks the processor for what libc's and other libraries' functions (memcpy,
 * sin) are chosen by, before any library's code runs.  Another choice rounds in another way,
 * and loads from memory that peers write in other pieces.  So the process's tracer, which has
 * laid its memory out (layout.h), answers from the recorded table until the shim takes over.
 */
#ifndef REPLAY_HOST_START_ANSWER_H
#define REPLAY_HOST_START_ANSWER_H

#include <stdbool.h>
#include <sys/types.h>

#include "logd/base/processor.h"

/* Waits.  Stopped: true, with its wait status; an end is left to who waits for that. */
bool sr_traced_stops(pid_t child, int *status);

/*
 * The child is stopped and its cpuid traps.  Returns where it has sent itself SIGSTOP
 * (shim/kernel/cpuid_trap.h), still stopped, or has ended.
 */
void sr_answer_cpuid(pid_t child, int memory, const struct sr_processor *recorded);

#endif
