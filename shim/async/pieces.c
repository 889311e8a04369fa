/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/async/pieces.h"

#include "shim/core/engine.h"
#include "shim/core/thread.h"
#include "shim/files/outputs.h"
#include "shim/kernel/readable.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/objects.h"
#include "shim/verbs/regions.h"

/* As many as the kernel takes in one request. */
#define PIECES_MOST 1024

const struct iovec *sr_pieces_list(const void *list, size_t count, size_t *n)
{
	*n = count <= PIECES_MOST && sr_is_readable(list, count * sizeof(struct iovec)) ? count : 0;
	return list;
}

bool sr_pieces_are_readable(const struct iovec *pieces, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!sr_is_readable(pieces[i].iov_base, pieces[i].iov_len))
			return false;
	return true;
}

static void expect(const struct iovec *piece)
{
	if (!sr_exposed_touches(piece->iov_base, piece->iov_len))
		return;
	if (sr_engine->replays) {
		if (sr_engine->expects)
			sr_engine->expects(piece->iov_base, piece->iov_len);
		return;
	}
	sr_exposed_keep_values(piece->iov_base, piece->iov_len);
	sr_clocks_unwatched();
}

void sr_pieces_expect(const struct iovec *pieces, size_t n)
{
	for (size_t i = 0; sr_regions_on && i < n; i++)
		expect(&pieces[i]);
}

void sr_pieces_have_landed(const struct iovec *pieces, size_t n, uint64_t bytes)
{
	for (size_t i = 0, part; i < n && bytes; i++, bytes -= part) {
		part = pieces[i].iov_len < bytes ? pieces[i].iov_len : bytes;
		sr_received_add(&sr_self.received, pieces[i].iov_base, (uint32_t)part);
	}
}

void sr_pieces_write_again(int fd, const struct iovec *pieces, size_t n, size_t bytes, long offset, long flags)
{
	struct sr_pinned pinned;

	sr_regions_pin_none(&pinned);
	for (size_t i = 0; sr_regions_on && i < n; i++)
		sr_regions_pin_more(&pinned, pieces[i].iov_base, pieces[i].iov_len);
	sr_output_again(fd, pieces, bytes, offset, flags);
	sr_regions_unpin(&pinned);
}
