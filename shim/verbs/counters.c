/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/verbs/counters.h"

#include "shim/memory/room.h"

/* Words that share a place are taken for one. */
#define WORD	    8
#define PLACES_BITS 17
/* More compare-swaps than so many of each rank on one word have too many orders to be tried, and so has any other atomic. */
#define FEW 2

static void *_Atomic places; /* of bytes, with how many there were, more than FEW if one was none; NULL: none */

/* Members' words have the same addresses, often. */
static uint64_t place_of(int member, uint64_t word)
{
	return (word ^ (uint64_t)member << 56) * 0x9e3779b97f4a7c15ull >> (64 - PLACES_BITS);
}

void sr_counters_add(int member, uint64_t addr, enum ibv_wr_opcode opcode)
{
	_Atomic uint8_t *p = sr_alloc_once(&places, 1ul << PLACES_BITS);
	uint64_t at = place_of(member, addr / WORD);

	if (p && p[at] <= FEW)
		p[at] += opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 1 : FEW + 1;
}

bool sr_counters_touch(int member, uint64_t addr, uint32_t length)
{
	const _Atomic uint8_t *p = places;

	for (uint64_t word = addr / WORD; p && word <= (addr + length - 1) / WORD; word++)
		if (p[place_of(member, word)] > FEW)
			return true;
	return false;
}
