/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/producers/writes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "logd/base/page.h"
#include "replay/host/producers/view.h"

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

bool sr_is_exposed(const struct sr_ended_group *e, uint32_t member, uint64_t addr, uint64_t n)
{
	const struct sr_group_member *m = &e->group->member[member];

	for (uint32_t i = 0; i < atomic_load(&m->regions); i++)
		if (addr < m->exposed[i].addr + m->exposed[i].length && m->exposed[i].addr < addr + n)
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

	for (size_t i = 0; i < m->own; i++) {
		const struct sr_group_write *w = &m->writes[i];

		if (!w->length || w->kind == SR_GROUP_OWN || sr_group_is_no_change(w->kind) || w->addr / PAGE == page)
			continue;
		if (!sr_is_exposed(e, member, w->addr, 1))
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
		if (!sr_is_exposed(e, member, m->outsiders[i].begin, 1) ||
		    !sr_is_exposed(e, member, m->outsiders[i].end - 1, 1))
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

/* ------------------------------------------------------------------- loading */

static const struct sr_group_write *write_number(const struct sr_view_part *v, uint64_t number)
{
	uint64_t at = number % SR_GROUP_WRITES * sizeof(struct sr_group_write);

	return at + sizeof(struct sr_group_write) <= v->n ? (const void *)(v->bytes + at) : NULL;
}

/* The bytes of all writes that are held among this member's. */
static int hold_written(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m)
{
	void *written;

	if (m->written[member])
		return 0;
	written = mmap(NULL, SR_GROUP_WRITTEN, PROT_READ, MAP_SHARED | MAP_NORESERVE, e->fd,
		       (off_t)sr_group_written_at(member));
	if (written == MAP_FAILED)
		return -ENOMEM;
	m->written[member] = written;
	return 0;
}

int sr_writes_each(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m,
		   int (*see)(void *argument, const struct sr_group_write *w, uint64_t number), void *argument)
{
	uint64_t n = e->group->member[member].writes;
	uint64_t number = n > SR_GROUP_WRITES ? n - SR_GROUP_WRITES : 0;
	struct sr_view_part v = sr_view_map(e->fd, sr_group_writes_at(member),
					    (n < SR_GROUP_WRITES ? n : SR_GROUP_WRITES) * sizeof(struct sr_group_write));
	int error = hold_written(e, member, m);

	for (; number < n && !error; number++) {
		const struct sr_group_write *at = write_number(&v, number);
		struct sr_group_write w = {0};

		if (at)
			w = *at;
		w.holder = (uint16_t)member;
		error = see(argument, &w, number);
	}
	sr_view_unmap(&v);
	return error;
}

int sr_writes_add(struct sr_writes *m, const struct sr_group_write *w)
{
	if (m->count == m->room) {
		size_t room = 2 * m->room + 1024;
		struct sr_group_write *more = realloc(m->writes, room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		m->writes = more;
		m->room = room;
	}
	m->writes[m->count++] = *w;
	return 0;
}

static int add(void *argument, const struct sr_group_write *w, uint64_t number)
{
	return sr_writes_add(argument, w);
}

int sr_writes_load(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m)
{
	int error = sr_writes_each(e, member, m, add, m);

	m->own = m->count;
	return error;
}

int sr_writes_index(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m)
{
	int error = sr_lines_begin(&m->lines, m->writes, m->count);

	if (error)
		return error;
	find_outsiders(e, member, m);
	m->is_complete = knows_all(e, member) && !has_strange_writes(e, member, m);
	m->loaded = true;
	return 0;
}

void sr_writes_free(struct sr_writes *m)
{
	free(m->writes);
	sr_lines_free(&m->lines);
	for (int i = 0; i < SR_GROUP_MEMBERS; i++)
		if (m->written[i])
			munmap((void *)m->written[i], SR_GROUP_WRITTEN);
}
