/* SPDX-License-Identifier: BSD-2-Clause */
#include "stream_resume.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "frame.h"

static bool read_fully(int fd, void *data, size_t size, uint64_t offset)
{
	return pread(fd, data, size, (off_t)offset) == (ssize_t)size;
}

static bool body_is_whole(int fd, const struct sr_frame_header *h, uint64_t offset)
{
	void *stored = malloc(h->stored_bytes + 1);
	bool whole = stored && read_fully(fd, stored, h->stored_bytes, offset + sizeof(*h)) &&
		     sr_frame_body_valid(h, stored);

	free(stored);
	return whole;
}

static void step(struct stream_end_found *end, const struct sr_frame_header *h)
{
	end->offset += sizeof(*h) + h->stored_bytes;
	end->next_sn = h->first_sn + h->sns;
	end->ring_position = h->ring_begin + h->ring_bytes;
	end->open = h->flags & SR_FRAME_OPEN;
	end->records += h->records;
}

int stream_find_end(int fd, uint64_t offset, struct stream_end_found *end)
{
	struct stream_end_found before;
	struct sr_frame_header h, last;

	*end = (struct stream_end_found){.offset = offset, .next_sn = 1};
	before = *end;
	while (read_fully(fd, &h, sizeof(h), end->offset) && sr_frame_header_valid(&h)) {
		before = *end;
		last = h;
		step(end, &h);
	}
	if (end->offset != before.offset && !body_is_whole(fd, &last, before.offset))
		*end = before;
	return 0;
}
