/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/producers/writes.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "logd/base/page.h"
#include "replay/host/shared/memory.h"

static bool is_member(const struct sr_group *g, int32_t rank)
{
	for (uint32_t i = 0; i < g->members; i++)
		if (g->member[i].rank == rank)
			return true;
	return false;
}

/* Did the member ever have a peer that is not replayed? */
static bool has_outsiders(const struct sr_ended_group *e, uint32_t member)
{
	int32_t rank = e->group->member[member].rank;
	const uint32_t *threads;
	size_t threads_n = sr_trace_threads(e->trace, rank, &threads);
	struct sr_error err;

	for (size_t thread = 0; thread < threads_n; thread++) {
		const struct sr_plan_peer *peers;
		const void *records;
		size_t n;

		if (sr_plan_records(e->plan, SR_PLAN_PEER, rank, threads[thread], &records, &n,
				    &err))
			return true;
		peers = records;
		for (size_t i = 0; i < n; i++)
			if (!is_member(e->group, peers[i].peer))
				return true;
	}
	return false;
}

uint64_t sr_writes_place(uint64_t addr, enum sr_write_length length)
{
	return length == SR_WRITE_SHORT ? addr / SR_WRITES_LINE * 2 : addr / PAGE * 2 + 1;
}

static uint64_t place_of_write(const struct sr_group_write *w)
{
	bool is_long = w->length && w->addr / SR_WRITES_LINE != (w->addr + w->length - 1) / SR_WRITES_LINE;

	return sr_writes_place(w->addr, is_long ? SR_WRITE_LONG : SR_WRITE_SHORT);
}

static int by_place_and_writer(const void *a, const void *b, void *writes)
{
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
	const struct sr_group_write *x = (struct sr_group_write *)writes + i;
	const struct sr_group_write *y = (struct sr_group_write *)writes + j;
	uint64_t s = place_of_write(x), t = place_of_write(y);

	if (s != t)
		return s < t ? -1 : 1;
	if (x->origin.member != y->origin.member)
		return x->origin.member < y->origin.member ? -1 : 1;
	if (x->origin.tick != y->origin.tick)
		return x->origin.tick < y->origin.tick ? -1 : 1;
	return i < j ? -1 : i > j;
}

bool sr_is_shared(const struct sr_ended_group *e, uint32_t member, uint64_t addr)
{
	const struct sr_group_member *m = &e->group->member[member];

	for (uint32_t i = 0; i < atomic_load(&m->shared_n); i++)
		if (addr - m->shared[i].addr < m->shared[i].length)
			return true;
	return false;
}

bool sr_is_exposed(const struct sr_ended_group *e, uint32_t member, uint64_t addr)
{
	const struct sr_group_member *m = &e->group->member[member];

	for (uint32_t i = 0; i < atomic_load(&m->regions); i++)
		if (addr - m->exposed[i].addr < m->exposed[i].length)
			return true;
	return false;
}

/*
 * True if peers write outside the exposed regions, or by other addresses than the owner's:
 * then not all writes to its exposed regions are known.
 */
static bool has_strange_writes(const struct sr_ended_group *e, uint32_t member,
			       const struct sr_writes *m)
{
	uint64_t page = UINT64_MAX;

	for (size_t i = 0; i < m->count; i++) {
		const struct sr_group_write *w = &m->writes[m->order[i]];

		if (w->kind == SR_GROUP_OWN || w->kind == SR_GROUP_UNSEEN ||
		    w->addr / PAGE == page)
			continue;
		if (!sr_is_exposed(e, member, w->addr))
			return true;
		page = w->addr / PAGE;
	}
	return false;
}

/* Outsiders that write by other addresses than the owner's can have written anywhere. */
static void find_outsiders(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m)
{
	m->has_strangers = has_outsiders(e, member);
	if (!m->has_strangers || !e->outsiders)
		return;
	m->outsiders = sr_outsiders_ranges(e->outsiders, member, &m->outsiders_n);
	m->has_strangers = !m->outsiders;
	for (size_t i = 0; m->outsiders && i < m->outsiders_n; i++)
		if (!sr_is_exposed(e, member, m->outsiders[i].begin) ||
		    !sr_is_exposed(e, member, m->outsiders[i].end - 1))
			m->has_strangers = true;
}

bool sr_writes_may_be_outsiders(const struct sr_writes *m, uint64_t addr)
{
	size_t low = 0, high = m->outsiders_n;

	if (m->has_strangers)
		return true;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (m->outsiders[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low < m->outsiders_n && m->outsiders[low].begin <= addr;
}

/* Are all writes that were ever made still kept? */
static bool knows_all(const struct sr_ended_group *e, uint32_t member)
{
	const struct sr_group_member *m = &e->group->member[member];

	for (uint32_t i = 0; i < e->group->members; i++)
		if (!atomic_load(&e->group->member[i].whole))
			return false;
	return m->writes <= SR_GROUP_WRITES && m->written <= SR_GROUP_WRITTEN;
}

int sr_writes_load(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m)
{
	uint64_t writes = e->group->member[member].writes;
	uint64_t first = writes > SR_GROUP_WRITES ? writes - SR_GROUP_WRITES : 0;
	const size_t bytes = sizeof(*m->writes);
	void *written;

	m->count = (size_t)(writes - first);
	m->writes = malloc((m->count ? m->count : 1) * bytes);
	m->order = malloc((m->count ? m->count : 1) * sizeof(*m->order));
	written = mmap(NULL, SR_GROUP_WRITTEN, PROT_READ, MAP_SHARED | MAP_NORESERVE, e->fd,
		       (off_t)sr_group_written_at(member));
	if (!m->writes || !m->order || written == MAP_FAILED)
		return -ENOMEM;
	m->written = written;
	for (size_t i = 0, n; i < m->count; i += n) {
		uint64_t place = (first + i) % SR_GROUP_WRITES;

		n = m->count - i < SR_GROUP_WRITES - place ? m->count - i
							   : (size_t)(SR_GROUP_WRITES - place);
		sr_group_file_read(e->fd, sr_group_writes_at(member) + place * bytes,
				   m->writes + i, n * bytes);
	}
	for (size_t i = 0; i < m->count; i++)
		m->order[i] = (uint32_t)i;
	qsort_r(m->order, m->count, sizeof(*m->order), by_place_and_writer, m->writes);
	find_outsiders(e, member, m);
	m->is_complete = knows_all(e, member) && !has_strange_writes(e, member, m);
	m->loaded = true;
	return 0;
}

struct sr_writes_range sr_writes_of(const struct sr_writes *m, uint64_t place, int32_t member)
{
	struct sr_writes_range r = {0, m->count};
	size_t end = m->count;

	for (int last = 0; last < 2; last++) {
		size_t low = r.first;

		end = m->count;
		while (low < end) {
			size_t middle = low + (end - low) / 2;
			const struct sr_group_write *w = &m->writes[m->order[middle]];
			uint64_t at = place_of_write(w);

			if (at < place || (at == place && w->origin.member < member + last))
				low = middle + 1;
			else
				end = middle;
		}
		if (last)
			r.end = low;
		else
			r.first = low;
	}
	return r;
}

void sr_writes_free(struct sr_writes *m)
{
	free(m->writes);
	free(m->order);
	if (m->written)
		munmap((void *)m->written, SR_GROUP_WRITTEN);
}
