/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/confirm/memory.h"

#include <sys/uio.h>

#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/verbs/regions.h"

static bool read_within_page(void *to, const void *from, size_t n)
{
	const struct iovec here = {to, n}, there = {(void *)from, n};

	return sr_syscall(SYS_process_vm_readv, sr_sys_getpid(), SR_ARG(&here), 1, SR_ARG(&there),
			  1, 0) == (long)n;
}

bool sr_confirm_read(void *to, uint64_t address, size_t n)
{
	char *at = to;

	while (n) {
		size_t part = PAGE - (address & (PAGE - 1));

		part = part < n ? part : n;
		if (!read_within_page(
			at, sr_regions_on ? sr_exposed_backing((void *)address) : (void *)address,
			part))
			return false;
		at += part;
		address += part;
		n -= part;
	}
	return true;
}
