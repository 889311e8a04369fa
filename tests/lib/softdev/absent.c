/* SPDX-License-Identifier: BSD-2-Clause */
/* absent.c: functions for what this device does not have, or does not need. */
#include <errno.h>
#include <stddef.h>

#include <infiniband/verbs.h>

/* Extended connection establishment: nothing to negotiate. */
int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return errno = EOPNOTSUPP;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	return errno = EOPNOTSUPP;
}

/* Objects of other processes. */
static void *cannot_import(void)
{
	errno = EOPNOTSUPP;
	return NULL;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	return cannot_import();
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	return cannot_import();
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	return cannot_import();
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	return cannot_import();
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
}

/* What a child inherits: a parent's registered pages stay the parent's in any case. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
