/* SPDX-License-Identifier: BSD-2-Clause */
/* objects.c: protection domains, address handles, device memory and other objects that are little
 * but names. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "local.h"

/* ----------------------------------------------------------------- domains */

static struct sd_pd *new_pd(struct ibv_context *context)
{
	struct sd_pd *pd = calloc(1, sizeof(*pd));

	if (pd)
		pd->pd.context = context;
	return pd;
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct sd_pd *pd = new_pd(context);

	if (!pd)
		return sd_refuse(ENOMEM);
	pd->number = pd->pd.handle = __atomic_add_fetch(&sd_fabric->next_pd, 1, __ATOMIC_RELAXED);
	return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *p)
{
	struct sd_pd *pd = (struct sd_pd *)p;

	if (__atomic_load_n(&pd->users, __ATOMIC_RELAXED))
		return EBUSY;
	if (pd->of)
		__atomic_sub_fetch(&((struct sd_pd *)pd->of)->users, 1, __ATOMIC_RELAXED);
	free(pd);
	return 0;
}

/* The same domain by another name. */
static struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
					  struct ibv_parent_domain_init_attr *attr)
{
	struct sd_pd *of = (struct sd_pd *)attr->pd, *pd;

	if (!of)
		return sd_refuse(EINVAL);
	pd = new_pd(context);
	if (!pd)
		return sd_refuse(ENOMEM);
	pd->number = of->number;
	pd->of = attr->pd;
	__atomic_add_fetch(&of->users, 1, __ATOMIC_RELAXED);
	return &pd->pd;
}

/* Hints for a device's own accesses, of rdma-core 57: there is nothing behind them. */
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *handle);

struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
	struct ibv_context **handle = calloc(1, sizeof(*handle));

	if (!handle)
		return sd_refuse(ENOMEM);
	*handle = context;
	return (struct ibv_dmah *)handle;
}

int ibv_dealloc_dmah(struct ibv_dmah *handle)
{
	free(handle);
	return 0;
}

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct ibv_td *td = calloc(1, sizeof(*td));

	if (td)
		td->context = context;
	return td;
}

static int dealloc_td(struct ibv_td *td)
{
	free(td);
	return 0;
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr)
{
	struct ibv_xrcd *xrcd = calloc(1, sizeof(*xrcd));

	if (xrcd)
		xrcd->context = context;
	return xrcd;
}

static int close_xrcd(struct ibv_xrcd *xrcd)
{
	free(xrcd);
	return 0;
}

/* ----------------------------------------------------------- device memory */

struct sd_dm {
	struct ibv_dm dm;
	size_t length;
	char memory[];
};

static int memcpy_to_dm(struct ibv_dm *dm, uint64_t offset, const void *from, size_t length)
{
	struct sd_dm *m = (struct sd_dm *)dm;

	if (offset > m->length || length > m->length - offset)
		return EFAULT;
	memcpy(m->memory + offset, from, length);
	return 0;
}

static int memcpy_from_dm(void *to, struct ibv_dm *dm, uint64_t offset, size_t length)
{
	struct sd_dm *m = (struct sd_dm *)dm;

	if (offset > m->length || length > m->length - offset)
		return EFAULT;
	memcpy(to, m->memory + offset, length);
	return 0;
}

static struct ibv_dm *alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
	struct sd_dm *m = calloc(1, sizeof(*m) + attr->length);

	if (!m)
		return sd_refuse(ENOMEM);
	m->dm.context = context;
	m->dm.memcpy_to_dm = memcpy_to_dm;
	m->dm.memcpy_from_dm = memcpy_from_dm;
	m->length = attr->length;
	return &m->dm;
}

static int free_dm(struct ibv_dm *dm)
{
	free(dm);
	return 0;
}

/* ------------------------------------------------------------ addresses */

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct sd_ah *ah;

	if ((!attr->is_global && !sd_fabric->infiniband) || attr->port_num > 1 || attr->grh.sgid_index > 1)
		return sd_refuse(EINVAL);
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return sd_refuse(ENOMEM);
	ah->ah = (struct ibv_ah){.context = pd->context, .pd = pd};
	ah->attr = *attr;
	__atomic_add_fetch(&((struct sd_pd *)pd)->users, 1, __ATOMIC_RELAXED);
	return &ah->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	__atomic_sub_fetch(&((struct sd_pd *)ah->pd)->users, 1, __ATOMIC_RELAXED);
	free(ah);
	return 0;
}

void sd_objects_add_operations(struct verbs_context *verbs)
{
	verbs->alloc_dm = alloc_dm;
	verbs->free_dm = free_dm;
	verbs->open_xrcd = open_xrcd;
	verbs->close_xrcd = close_xrcd;
	verbs->alloc_td = alloc_td;
	verbs->dealloc_td = dealloc_td;
	verbs->alloc_parent_domain = alloc_parent_domain;
}
