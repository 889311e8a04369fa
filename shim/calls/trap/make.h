/* SPDX-License-Identifier: BSD-2-Clause */
/* make.h: a trapped system call is made: by the kernel, or as a call of calls.def. */
#ifndef SHIM_CALLS_TRAP_MAKE_H
#define SHIM_CALLS_TRAP_MAKE_H

#include <stdint.h>
#include <ucontext.h>

#include "logd/base/rawsys.h"
#include "shim/core/call.h"

/* A system call that came by the trap. */
struct sr_trapped {
	struct sr_thread *t;
	long nr;
	uint64_t *a; /* its six arguments */
	ucontext_t *uc;
	void *site;
};

/* All of these return what the kernel would: -errno for an error. */

static inline long sr_make_raw(long nr, const uint64_t a[6])
{
	return sr_syscall(nr, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4],
			  (long)a[5]);
}

/*
 * The same, where what it reads or writes may be exposed regions, which the kernel would find
 * protected.  Not for the calls that are about addresses: see addresses.h.
 */
long sr_make_on_memory(long nr, const uint64_t a[6]);

long sr_make_call(const struct sr_trapped *c, enum sr_call_number n);

/* The call of a system call that calls.def does not describe; a line on standard error says so. */
long sr_make_unknown(const struct sr_trapped *c);

#endif
