/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/stream_resume.h"

#include <stdlib.h>

#include "logd/trace/file_io.h"
#include "logd/trace/frame.h"

/* malloc'ed; NULL: it cannot be read, or it is torn. */
static void *read_body(int fd, const struct sr_frame_header *h, uint64_t offset)
{
	void *stored = malloc(h->stored_bytes + 1);

	if (stored && read_fully(fd, stored, h->stored_bytes, offset + sizeof(*h)) &&
	    sr_frame_body_valid(h, stored))
		return stored;
	free(stored);
	return NULL;
}

/* Fills in what the last record of the last frame is. */
static void note_last(struct stream_end_found *end, const struct sr_frame_header *h,
		      const void *stored)
{
	void *room = malloc(h->raw_bytes + 1);
	struct sr_count count;

	if (room && !sr_frame_decode(h, stored, room) &&
	    !sr_count_records(&count, room, h->raw_bytes, h->raw_bytes, false)) {
		end->exit = count.exit;
		/* A mark that was in the ring is its producer's. */
		end->mark = h->ring_bytes ? 0 : count.mark;
	}
	free(room);
}

static void step(struct stream_end_found *end, const struct sr_frame_header *h)
{
	end->offset += sizeof(*h) + h->stored_bytes;
	end->next_sn = h->first_sn + h->sns;
	end->ring_position = h->ring_begin + h->ring_bytes;
	end->open = h->flags & SR_FRAME_OPEN;
	end->records += h->records;
}

/* A frame that was passed, and the state in front of it. */
struct passed {
	struct stream_end_found before;
	struct sr_frame_header h;
};

/* False: it is torn. */
static bool check_last(struct stream_end_found *end, int fd, const struct passed *p)
{
	void *stored = read_body(fd, &p->h, p->before.offset);
	bool whole = stored != NULL;

	if (stored)
		note_last(end, &p->h, stored);
	free(stored);
	return whole;
}

int stream_find_end(int fd, struct stream_end_found *end)
{
	/* The last frame, and the one in front of it, which is the last if that one is torn. */
	struct passed last = {0}, second = {0};
	struct sr_frame_header h;
	unsigned int frames = 0;

	while (read_fully(fd, &h, sizeof(h), end->offset) && sr_frame_header_valid(&h)) {
		second = last;
		last = (struct passed){.before = *end, .h = h};
		frames++;
		step(end, &h);
	}
	if (!frames || check_last(end, fd, &last))
		return 0;
	*end = last.before;
	if (frames > 1)
		check_last(end, fd, &second);
	return 0;
}
