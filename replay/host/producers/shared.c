/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/producers/shared.h"

#include "logd/base/page.h"

static bool has(const struct sr_group_shared *s, uint64_t addr)
{
	return addr - s->addr < sr_page_up(s->length);
}

bool sr_is_shared(const struct sr_ended_group *e, uint32_t member, uint64_t addr)
{
	const struct sr_group_member *m = &e->group->member[member];

	for (uint32_t i = 0; i < atomic_load(&m->shared_n); i++)
		if (addr - m->shared[i].addr < m->shared[i].length)
			return true;
	return false;
}

/* The mapping through which the member's write number `number` went.  NULL: none. */
static const struct sr_group_shared *mapping_of(const struct sr_group_member *m, uint64_t addr, uint64_t number)
{
	for (uint32_t i = atomic_load(&m->shared_n); i-- > 0;)
		if (m->shared[i].since <= number && has(&m->shared[i], addr))
			return m->shared[i].object ? &m->shared[i] : NULL;
	return NULL;
}

/* Through which of the member's mappings can it see what was written there? */
static int add_for_mappings(const struct sr_group_member *to, struct sr_writes *m,
			    const struct sr_group_shared *from, const struct sr_group_write *w)
{
	uint64_t offset = from->offset + (w->addr - from->addr);
	int error = 0;

	for (uint32_t i = 0; i < atomic_load(&to->shared_n) && !error; i++) {
		const struct sr_group_shared *s = &to->shared[i];
		struct sr_group_write seen = *w;

		if (s == from || s->object != from->object || offset - s->offset >= sr_page_up(s->length))
			continue;
		seen.addr = s->addr + (offset - s->offset);
		if (w->kind == SR_GROUP_OWN) {
			/* The order of what a CPU stored since the same post. */
			seen.kind = SR_GROUP_SHARED;
			seen.origin.request = (uint32_t)m->count;
		}
		error = sr_writes_add(m, &seen);
	}
	return error;
}

struct adding {
	const struct sr_group_member *from, *to;
	struct sr_writes *m;
};

static int see(void *argument, const struct sr_group_write *w, uint64_t number)
{
	const struct adding *a = argument;
	const struct sr_group_shared *s;

	if (w->kind != SR_GROUP_OWN && w->kind != SR_GROUP_BYTES)
		return 0;
	s = mapping_of(a->from, w->addr, number);
	return s ? add_for_mappings(a->to, a->m, s, w) : 0;
}

int sr_shared_add(const struct sr_ended_group *e, uint32_t member, struct sr_writes *m)
{
	struct adding a = {.to = &e->group->member[member], .m = m};
	int error = 0;

	if (!atomic_load(&a.to->shared_n))
		return 0;
	for (uint32_t i = 0; i < e->group->members && !error; i++) {
		a.from = &e->group->member[i];
		if (atomic_load(&a.from->shared_n))
			error = sr_writes_each(e, i, m, see, &a);
	}
	return error;
}
