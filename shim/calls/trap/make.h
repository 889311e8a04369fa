/* SPDX-License-Identifier: BSD-2-Clause */
/* make.h: makes a trapped system call: by the kernel, or as a call of calls.def. */
#ifndef SHIM_CALLS_TRAP_MAKE_H
#define SHIM_CALLS_TRAP_MAKE_H

#include <stdint.h>
#include <ucontext.h>

#include "logd/base/rawsys.h"
#include "shim/core/call.h"

/* A trapped system call. */
struct sr_trapped {
	struct sr_thread *t;
	long nr;
	uint64_t *a; /* its six arguments, with room for one word more */
	ucontext_t *uc;
	void *site;
};

/* All these functions return what the kernel returns: -errno for an error. */

static inline long sr_make_raw(long nr, const uint64_t a[6])
{
	return sr_syscall(nr, (long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4],
			  (long)a[5]);
}

/*
 * The same for a call that may read or write exposed regions, which are protected from the kernel,
 * too.  Not for calls that change the address space: see addresses.h.
 */
long sr_make_on_memory(long nr, const uint64_t a[6]);

long sr_make_call(const struct sr_trapped *c, enum sr_call_number n);

/* Makes a system call that calls.def does not describe, and reports it on standard error. */
long sr_make_unknown(const struct sr_trapped *c);

#endif
