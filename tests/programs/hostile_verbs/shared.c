/* SPDX-License-Identifier: BSD-2-Clause */
#include "hostile_verbs/shared.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct ibv_context *context;
struct ibv_pd *pd;
struct ibv_comp_channel *channel;
struct ibv_cq *cq;
struct ibv_qp *qp;
char *memory;
struct ibv_mr *mr;

char *map(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return check(p == MAP_FAILED ? NULL : p, "mmap");
}

void to_state(struct ibv_qp *q, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr = loopback_attr(state, q->qp_num, ALL);

	if (ibv_modify_qp(q, &attr, loopback_mask(state)))
		printf("modify_qp fails\n");
}

void connect_qp(struct ibv_qp *q)
{
	to_state(q, IBV_QPS_INIT);
	to_state(q, IBV_QPS_RTR);
	to_state(q, IBV_QPS_RTS);
}

struct ibv_qp *new_qp(void)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq, .recv_cq = cq, .cap = {DEPTH, DEPTH, 4, 4, 64}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *q = check(ibv_create_qp(pd, &attr), "ibv_create_qp");

	connect_qp(q);
	return q;
}

void open_all(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	context = check(ibv_open_device(list[0]), "ibv_open_device");
	ibv_free_device_list(list);
	pd = check(ibv_alloc_pd(context), "ibv_alloc_pd");
	channel = check(ibv_create_comp_channel(context), "ibv_create_comp_channel");
	cq = check(ibv_create_cq(context, 4096, NULL, channel, 0), "ibv_create_cq");
	memory = map(BYTES);
	mr = check(ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE), "ibv_reg_mr");
	qp = new_qp();
}

struct ibv_sge piece(size_t at, size_t n)
{
	return (struct ibv_sge){(uintptr_t)memory + at, (uint32_t)n, mr->lkey};
}

int receive(struct ibv_qp *q, uint64_t id, struct ibv_sge sge)
{
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_recv(q, &wr, &bad);
}

int send_it(struct ibv_qp *q, uint64_t id, struct ibv_sge sge, unsigned int flags)
{
	struct ibv_send_wr wr = {.wr_id = id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = flags},
			   *bad;

	return ibv_post_send(q, &wr, &bad);
}

void show_completions(void)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(cq, 1, &wc) > 0)
		printf("wc %llu %s op %d\n", (unsigned long long)wc.wr_id,
		       ibv_wc_status_str(wc.status), wc.opcode);
}

void clean_up(void)
{
	show_completions();
	printf("qp %d", ibv_destroy_qp(qp));
	printf(" mr %d", ibv_dereg_mr(mr));
	printf(" cq %d", ibv_destroy_cq(cq));
	printf(" channel %d", ibv_destroy_comp_channel(channel));
	printf(" pd %d", ibv_dealloc_pd(pd));
	printf(" close %d\n", ibv_close_device(context));
}

__attribute__((noinline)) static int deep(int n)
{
	volatile char bytes[256];

	memset((char *)bytes, n, sizeof(bytes));
	if (n)
		return deep(n - 1) + bytes[0];
	receive(qp, 1, piece(0, 2000));
	send_it(qp, 2, piece(PAGE, 2000), IBV_SEND_SIGNALED);
	show_completions();
	return 0;
}

void *small_stack(void *unused)
{
	deep(8);
	return NULL;
}
