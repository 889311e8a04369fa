/* SPDX-License-Identifier: BSD-2-Clause */
/* See domains.h. */
#include "shim/verbs/clocks/domains.h"

#include "logd/base/lock.h"
#include "shim/core/call.h"
#include "shim/memory/heap.h"
#include "shim/memory/map.h"

struct domain {
	struct ibv_mr *mr;
	uint32_t queue_pairs;
};

static struct sr_map domains;
static struct sr_lock domains_lock;

/*
 * Calls the real ibv_reg_mr_iova2.  The real ibv_reg_mr would call that one by its public name,
 * and its wrapper would take the region for one of the program's.
 */
static struct ibv_mr *register_memory(struct ibv_pd *pd, void *memory, size_t bytes)
{
	uint64_t a[] = {(uintptr_t)pd, (uintptr_t)memory, bytes, (uintptr_t)memory,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};

	return (void *)sr_real(&sr_calls[SR_CALL_ibv_reg_mr_iova2], a);
}

struct ibv_mr *sr_clock_domain_use(struct ibv_pd *pd, void *memory, size_t bytes)
{
	struct domain *d;
	void *old;

	sr_lock(&domains_lock);
	d = sr_map_get(&domains, (uintptr_t)pd);
	if (!d) {
		d = sr_alloc_zeroed(sizeof(*d));
		if (d)
			d->mr = register_memory(pd, memory, bytes);
		if (d && (!d->mr || sr_map_put(&domains, (uintptr_t)pd, d, &old))) {
			sr_free(d);
			d = NULL;
		}
	}
	if (d)
		d->queue_pairs++;
	sr_unlock(&domains_lock);
	return d ? d->mr : NULL;
}

void sr_clock_domain_leave(struct ibv_pd *pd)
{
	struct domain *d;

	sr_lock(&domains_lock);
	d = sr_map_get(&domains, (uintptr_t)pd);
	if (d)
		d->queue_pairs--;
	sr_unlock(&domains_lock);
}

void sr_clock_domain_drop(struct ibv_pd *pd)
{
	struct domain *d;

	sr_lock(&domains_lock);
	d = sr_map_get(&domains, (uintptr_t)pd);
	/* ibv_dealloc_pd will fail while queue pairs are left, and peers still write there. */
	if (d && d->queue_pairs)
		d = NULL;
	if (d)
		sr_map_take(&domains, (uintptr_t)pd);
	sr_unlock(&domains_lock);
	if (!d)
		return;
	sr_real(&sr_calls[SR_CALL_ibv_dereg_mr], (uint64_t[]){(uintptr_t)d->mr});
	sr_free(d);
}
