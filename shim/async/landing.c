/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/async/landing.h"

#include "shim/core/thread.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/regions.h"

void sr_landing_expect(const struct iovec *pieces, size_t n)
{
	for (size_t i = 0; sr_regions_on && i < n; i++)
		if (sr_exposed_touches(pieces[i].iov_base, pieces[i].iov_len))
			sr_exposed_keep_values(pieces[i].iov_base, pieces[i].iov_len);
}

void sr_landing_ends(const struct iovec *pieces, size_t n, uint64_t bytes)
{
	for (size_t i = 0, part; i < n && bytes; i++, bytes -= part) {
		part = pieces[i].iov_len < bytes ? pieces[i].iov_len : bytes;
		sr_received_add(&sr_self.received, pieces[i].iov_base, (uint32_t)part);
	}
}
