/* SPDX-License-Identifier: BSD-2-Clause */
/* registrations.c: memory regions; see own.h. */
#include "replay/analysis/process/own.h"

#include <errno.h>
#include <stdlib.h>

#include "replay/analysis/log/grow.h"

void sr_log_free_registrations(struct rank *r)
{
	free(r->registrations);
	sr_keymap_free(&r->by_mr);
}

static int add(struct rank *r, uint64_t mr, const struct sr_log_reg_mr *v)
{
	struct registration *added = sr_grow((void **)&r->registrations, r->registrations_n, &r->registrations_room,
					     sizeof(*added));

	if (!added || sr_keymap_put(&r->by_mr, mr, r->registrations_n))
		return -ENOMEM;
	*added = (struct registration){v->addr, v->addr + v->length, v->lkey, v->rkey};
	r->registrations_n++;
	return 0;
}

static struct registration *find(struct rank *r, uint64_t mr)
{
	uint64_t at;

	return mr && sr_keymap_get(&r->by_mr, mr, &at) ? &r->registrations[at] : NULL;
}

static int report(struct process *p, size_t rank, const struct sr_log_call *c, const struct registration *g)
{
	if (!g || !p->hooks->released || g->begin >= g->end)
		return 0;
	return p->hooks->released(p->hooks->argument,
				  &(struct sr_released){.rank = rank,
							.at = *sr_knowledge_now(p->knowledge, rank),
							.site = c->site,
							.begin = g->begin,
							.end = g->end,
							.lkey = g->lkey,
							.rkey = g->rkey});
}

/* Its memory is registered anew, or with other rights: what is under way there may fail. */
static int register_again(struct process *p, size_t rank, const struct sr_log_call *c)
{
	struct rank *r = &p->ranks[rank];
	struct sr_log_reg_mr v;
	struct registration *g;
	uint64_t mr;
	int err;

	if (!sr_log_get_rereg_mr(c, &mr, &v))
		return 0;
	g = find(r, mr);
	if (!g)
		return 0;
	err = report(p, rank, c, g);
	if (!v.addr) {
		v.addr = g->begin;
		v.length = g->end - g->begin;
	}
	return err ? err : add(r, mr, &v);
}

int sr_log_registration(struct process *p, size_t rank, const struct sr_log_call *c)
{
	struct rank *r = &p->ranks[rank];
	struct sr_log_reg_mr v;
	struct registration *g;
	int err;

	if (!p->hooks->released)
		return 0;
	if (c->what == SR_WHAT_REREG_MR)
		return register_again(p, rank, c);
	if (c->what != SR_WHAT_DEREG_MR)
		return sr_log_get_reg_mr(c, &v) ? add(r, c->result, &v) : 0;
	g = find(r, sr_log_destroyed(c));
	err = report(p, rank, c, g);
	if (g)
		g->end = g->begin;
	return err;
}
