/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/scattered.h"

#include <string.h>

#include "shim/memory/room.h"

#define PLACES 64
#define MOST   512 /* bytes of a READ: longer ones are taken for blocks */
#define SHORT  64  /* of what changes in a shorter one hardly a replay can tell who was the last to write it */
/* Of up to three, the reader's own among them, a replay tries all combinations; more than so many are one rank's block. */
#define LEAST_WORDS 4
#define MOST_WORDS  24

/* With --order only, so not a part of the library's image. */
static struct place {
	const void *queue;
	uint64_t remote;
	uint32_t length;
	bool scattered;
	uint64_t words[MOST / 8];
} *places;

static struct place *place_of(const void *queue, uint64_t remote)
{
	if (!places && !(places = sr_map_zeroed(PLACES * sizeof(*places))))
		return NULL;
	return &places[((remote / 8 ^ (uintptr_t)queue / 64) * 0x9e3779b97f4a7c15ull) >> 58];
}

static bool is_here_and_there(const struct place *p, const char *bytes)
{
	uint32_t changed = 0, words = p->length / 8;

	for (uint32_t i = 0; i < words; i++)
		changed += memcmp(&p->words[i], bytes + 8 * (size_t)i, 8) != 0;
	return changed >= LEAST_WORDS && changed <= MOST_WORDS && changed < words;
}

bool sr_is_scattered(const void *queue, uint64_t remote, const void *bytes, uint32_t length)
{
	struct place *p = length <= MOST && (length < SHORT || length % 8 == 0) ? place_of(queue, remote) : NULL;
	bool is_first;

	if (!p)
		return false;
	is_first = p->queue != queue || p->remote != remote || p->length != length;
	if (is_first)
		*p = (struct place){.queue = queue, .remote = remote, .length = length};
	if (p->scattered)
		return true;
	/* The first READ of a long place counts, too: other ranks may have got far by then. */
	if (length < SHORT)
		p->scattered = !is_first && memcmp(p->words, bytes, length);
	else
		p->scattered = is_here_and_there(p, bytes);
	memcpy(p->words, bytes, length);
	return p->scattered;
}
