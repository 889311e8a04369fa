/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/producers/view.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct sr_view_part sr_view_map(int fd, uint64_t at, uint64_t n)
{
	struct sr_view_part p = {0};
	struct stat s;
	void *bytes;

	/* A process that was killed may have counted what it did not write. */
	if (fstat(fd, &s) || (uint64_t)s.st_size <= at)
		return p;
	if (n > (uint64_t)s.st_size - at)
		n = (uint64_t)s.st_size - at;
	bytes = n ? mmap(NULL, n, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, (off_t)at) : MAP_FAILED;
	if (bytes != MAP_FAILED)
		p = (struct sr_view_part){bytes, n};
	return p;
}

void sr_view_unmap(struct sr_view_part *p)
{
	if (p->n)
		munmap((void *)p->bytes, p->n);
	p->n = 0;
}

static const struct sr_view_part *part_of(struct sr_view_positions *v, int fd, const struct sr_group *g,
					  const struct sr_group_origin *o, uint64_t bytes)
{
	struct sr_view_part *p;
	uint64_t n = atomic_load(&g->member[o->member].positions[o->thread]);

	if (!v->of[o->member])
		v->of[o->member] = calloc(SR_REPLAY_THREADS, sizeof(*p));
	if (!v->of[o->member])
		return NULL;
	p = &v->of[o->member][o->thread];
	if (n && !p->n)
		*p = sr_view_map(fd, sr_group_positions_at((uint32_t)o->member, o->thread), n * bytes);
	return p;
}

uint64_t sr_view_knew(struct sr_view_positions *v, int fd, const struct sr_group *g,
		      const struct sr_group_origin *o, uint32_t member)
{
	const uint64_t bytes = sizeof(struct sr_group_position) + g->members * sizeof(uint64_t);
	const struct sr_view_part *p = part_of(v, fd, g, o, bytes);
	uint64_t low = 0, high = p ? p->n / bytes : 0;
	uint64_t sn, known = 0;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		memcpy(&sn, p->bytes + middle * bytes, sizeof(sn));
		if (sn <= o->sn)
			low = middle + 1;
		else
			high = middle;
	}
	if (low)
		memcpy(&known, p->bytes + (low - 1) * bytes + sizeof(sn) + member * sizeof(known),
		       sizeof(known));
	return known;
}

void sr_view_positions_free(struct sr_view_positions *v)
{
	for (int i = 0; i < SR_GROUP_MEMBERS; i++) {
		for (uint32_t thread = 0; v->of[i] && thread < SR_REPLAY_THREADS; thread++)
			sr_view_unmap(&v->of[i][thread]);
		free(v->of[i]);
	}
}
