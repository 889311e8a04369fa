/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * start_device.c: for bench/start: the least that a program of verbs does: opens a device, registers
 * memory that peers may write, makes a queue pair, and ends.
 */
#include <stdlib.h>

#include <infiniband/verbs.h>

#define BYTES 65536

int main(void)
{
	int n;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *c = list && n ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = c ? ibv_alloc_pd(c) : NULL;
	struct ibv_cq *cq = c ? ibv_create_cq(c, 16, NULL, NULL, 0) : NULL;
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq,
	    .recv_cq = cq,
	    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
	    .qp_type = IBV_QPT_RC,
	};
	void *memory = aligned_alloc(4096, BYTES);

	if (!pd || !cq || !memory ||
	    !ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) ||
	    !ibv_create_qp(pd, &attr))
		return 1;
	return 0;
}
