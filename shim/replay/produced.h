/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * produced.h: keeps values that the trace leaves out, and that the group has produced, for the command
 * (replay/abi/produced.h).
 */
#ifndef SHIM_REPLAY_PRODUCED_H
#define SHIM_REPLAY_PRODUCED_H

#include <stddef.h>

#include "shim/core/thread.h"

/*
 * The bytes have entered the thread, in the order of its records.  Any thread, also in a fault handler: it
 * only makes a system call.
 */
void sr_produced_keep(const struct sr_thread *t, const void *bytes, size_t n);

#endif
