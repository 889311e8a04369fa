/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/readable.h"

#include <errno.h>
#include <sys/uio.h>

#include "logd/base/page.h"
#include "logd/base/rawsys.h"
#include "shim/exposed/exposed.h"

#define PAGES_AT_ONCE 64

static size_t to_next_page(const char *p)
{
	return PAGE - (uintptr_t)p % PAGE;
}

static bool are_readable(const struct iovec *pages, size_t n)
{
	char bytes[PAGES_AT_ONCE];
	struct iovec here = {bytes, n};
	long read = sr_sys_read_self(&here, pages, (long)n);

	return read == (long)n || read == -ENOSYS || read == -EPERM;
}

bool sr_is_readable(const void *start, size_t n)
{
	const char *p = start, *end = p + n;
	struct iovec pages[PAGES_AT_ONCE];
	size_t count;

	if (end < p)
		return false;
	while (p < end) {
		for (count = 0; p < end && count < PAGES_AT_ONCE; count++) {
			pages[count] = (struct iovec){(void *)p, 1};
			/*
			 * Pages of an exposed region are readable, although the kernel finds
			 * them protected.
			 */
			if (sr_exposed_touches(p, 1))
				pages[count].iov_base = &pages;
			/*
			 * Do not go past the end: behind the last address the pointer would
			 * overflow.
			 */
			p = (size_t)(end - p) > to_next_page(p) ? p + to_next_page(p) : end;
		}
		if (!are_readable(pages, count))
			return false;
	}
	return true;
}
