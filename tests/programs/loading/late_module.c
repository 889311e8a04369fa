/* SPDX-License-Identifier: BSD-2-Clause */
/* late_module.c: what late.c loads; it is linked against libibverbs. */
#include <infiniband/verbs.h>

int use_a_device(void);

int use_a_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct ibv_cq *cq = context ? ibv_create_cq(context, 8, NULL, NULL, 0) : NULL;
	struct ibv_wc wc;

	if (!pd || !cq || ibv_poll_cq(cq, 1, &wc))
		return 2;
	return ibv_destroy_cq(cq) + ibv_dealloc_pd(pd) + ibv_close_device(context);
}
