/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/cycles.h"

#include <string.h>

void sr_cycles_forget(struct sr_cycles *c)
{
	c->kept_n = 0;
	c->done = c->cycle.calls = 0;
}

bool sr_cycles_keep(struct sr_cycles *c, const struct sr_entry *e)
{
	struct sr_kept_call *k = &c->kept[c->kept_n % SR_KEPT];

	if (e->kind < SR_REC_CALL || e->flags & SR_RECORD_REFERS || e->size > sizeof(k->payload))
		return false;
	memcpy(k->payload, e->payload, e->size);
	k->kind = e->kind;
	k->size = (uint16_t)e->size;
	c->kept_n++;
	return true;
}

/* back is 1 or more, and no more than are kept. */
static const struct sr_kept_call *kept_at(const struct sr_cycles *c, uint8_t back)
{
	return &c->kept[(c->kept_n - back) % SR_KEPT];
}

bool sr_cycles_begin(struct sr_cycles *c, const struct sr_entry *e, uint64_t passed)
{
	const uint64_t kept = c->kept_n < SR_KEPT ? c->kept_n : SR_KEPT;

	c->done = c->cycle.calls = 0;
	memcpy(&c->cycle, e->payload, sizeof(c->cycle));
	if (!c->cycle.period || c->cycle.period > SR_CYCLE_PERIOD || passed > c->cycle.calls)
		return c->cycle.calls = 0, false;
	for (unsigned int i = 0; i < c->cycle.period; i++)
		if (!c->cycle.back[i] || c->cycle.back[i] > kept)
			return c->cycle.calls = 0, false;
	c->entry = *e;
	c->first = c->done = (uint32_t)passed;
	return true;
}

bool sr_cycles_next(struct sr_cycles *c, struct sr_entry *e)
{
	const uint32_t stride = c->folds ? c->cycle.period : 1;
	const struct sr_kept_call *k;

	if (c->done == c->cycle.calls)
		return false;
	k = kept_at(c, c->cycle.back[c->done % c->cycle.period]);
	*e = (struct sr_entry){
	    .kind = k->kind,
	    .sn = c->entry.sn + c->done,
	    .count = c->folds ? 1 + (c->cycle.calls - c->done - 1) / stride : 1,
	    .stride = stride,
	    .payload = k->payload,
	    .size = k->size,
	    .again = true,
	    .cycle = c->done ? NULL : &c->cycle,
	    .offset = c->entry.offset,
	};
	c->done++;
	if (c->folds && c->done - c->first == stride)
		c->done = c->cycle.calls;
	return true;
}
