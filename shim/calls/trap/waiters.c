/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/calls/trap/waiters.h"

#include <linux/futex.h>

#include "shim/exposed/exposed.h"
#include "shim/kernel/readable.h"

static const struct futex_waitv *list_of(const uint64_t a[6])
{
	return (const struct futex_waitv *)a[0];
}

unsigned int sr_waiters(const uint64_t a[6])
{
	const unsigned int n = (unsigned int)a[1];

	return n <= FUTEX_WAITV_MAX && list_of(a) && sr_is_readable(list_of(a), n * sizeof(struct futex_waitv)) ? n : 0;
}

uint64_t sr_waiters_word(const uint64_t a[6], unsigned int i)
{
	struct futex_waitv one;

	/* The program does not load it: the kernel does. */
	sr_exposed_copy(&list_of(a)[i], &one, sizeof(one));
	return one.uaddr;
}
