/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/fetched_before.h"


#include "logd/base/checksum.h"
#include "shim/memory/room.h"

#define FETCHED (1u << 16) /* places in memory; one that falls together with another pushes it out */

struct fetched {
	uint64_t addr, checksum;
	uint64_t bytes_at; /* 0: not noted yet */
	int32_t member;
	uint32_t length;
};

/* Mapped, because the library's image has to stay small. */
static struct fetched *fetched;

static bool begin(void)
{
	if (!fetched)
		fetched = sr_map_zeroed(FETCHED * sizeof(*fetched));
	return fetched;
}

static struct fetched *place_of(const struct sr_group_sample *l)
{
	return &fetched[((l->addr ^ (uint64_t)l->member << 48) * 0x9e3779b97f4a7c15ull >> 40) % FETCHED];
}

uint64_t sr_fetched_before(const struct sr_group_sample *l, const uint8_t *bytes)
{
	struct fetched now = {.addr = l->addr, .checksum = sr_checksum(bytes, l->length, 0), .member = l->member, .length = l->length};
	struct fetched *f;

	if (!begin())
		return 0;
	f = place_of(l);
	if (f->addr != now.addr || f->member != now.member || f->length != now.length || f->checksum != now.checksum)
		*f = now;
	return f->bytes_at;
}

void sr_fetched_note(const struct sr_group_sample *l, uint64_t bytes_at)
{
	if (fetched)
		place_of(l)->bytes_at = bytes_at;
}
