/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/proxy/images.h"

#include <sys/mman.h>

static void release(struct sr_images *all, struct sr_image *i)
{
	if (!i->at)
		return;
	sr_device_release(all->device, i->mr);
	munmap(i->memory, SR_PIECE);
	i->at = 0;
}

/*
 * The entry of that piece, else a free one, else the one that was not used for longest.  Ranks of one program
 * have their exposed regions at the same addresses: entries found by a hash of the address
 * would displace one another with each request.
 */
static struct sr_image *image_place(struct sr_images *all, uint64_t begin)
{
	struct sr_image *oldest = &all->images[0];

	for (uint32_t i = 0; i < all->room; i++) {
		if (all->images[i].at == begin)
			return &all->images[i];
		if (all->images[i].used < oldest->used)
			oldest = &all->images[i];
	}
	return oldest;
}

static bool map(struct sr_images *all, struct sr_image *i, uint64_t begin)
{
	void *p = mmap(NULL, SR_PIECE, PROT_READ | PROT_WRITE, MAP_SHARED, all->fd, (off_t)begin);

	if (p == MAP_FAILED)
		return false;
	i->mr = sr_device_register(all->device, p, SR_PIECE);
	if (!i->mr)
		return munmap(p, SR_PIECE), false;
	i->memory = p;
	i->at = begin;
	return true;
}

struct sr_image *sr_image_of(struct sr_images *all, uint64_t at)
{
	const uint64_t begin = at & ~(uint64_t)(SR_PIECE - 1);
	struct sr_image *i;

	while ((i = image_place(all, begin))->at != begin) {
		const bool was_free = !i->at;

		release(all, i);
		if (map(all, i, begin))
			break;
		if (!was_free || i == all->images)
			return NULL;
		/* The user may register no more. Entries are taken from the first on, so this one and all behind it are free. */
		all->room = (uint32_t)(i - all->images);
	}
	i->used = ++all->uses;
	return i;
}
