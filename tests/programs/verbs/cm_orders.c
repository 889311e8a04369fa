/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * cm_orders.c: what librdmacm's events order.
 *
 *   cm_orders serve ADDRESS PORT ordered|racing
 *   cm_orders ask ADDRESS PORT
 *
 * The server stores numbers, and accepts a connection with the place of them as its data.  The client READs them, and ends the connection.  The server
 * stores others when it knows of that; racing: as soon as the connection is there.
 */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBERS 8

struct place {
	uint64_t address;
	uint32_t rkey;
};

static volatile uint64_t *numbers;
static struct place shown; /* by the server */

static void check(int failed, const char *what)
{
	if (!failed)
		return;
	perror(what);
	exit(1);
}

static struct rdma_cm_id *await(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	if (event->event != type) {
		fprintf(stderr, "%s came, not %s\n", rdma_event_str(event->event), rdma_event_str(type));
		exit(1);
	}
	id = event->id;
	if (type == RDMA_CM_EVENT_ESTABLISHED && event->param.conn.private_data_len >= sizeof(shown))
		memcpy(&shown, event->param.conn.private_data, sizeof(shown));
	rdma_ack_cm_event(event);
	return id;
}

static struct ibv_mr *prepare(struct rdma_cm_id *id, struct ibv_pd **pd, struct ibv_cq **cq, int access)
{
	struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_RC, .sq_sig_all = 1, .cap = {4, 4, 1, 1, 0}};
	struct ibv_mr *mr;

	*pd = ibv_alloc_pd(id->verbs);
	*cq = ibv_create_cq(id->verbs, 4, NULL, NULL, 0);
	check(!*pd || !*cq, "protection domain and completion queue");
	attr.send_cq = attr.recv_cq = *cq;
	check(rdma_create_qp(id, *pd, &attr), "rdma_create_qp");
	mr = ibv_reg_mr(*pd, (void *)numbers, NUMBERS * sizeof(*numbers), access);
	check(!mr, "ibv_reg_mr");
	return mr;
}

static void clean_up(struct rdma_cm_id *id, struct ibv_mr *mr, struct ibv_pd *pd, struct ibv_cq *cq)
{
	rdma_destroy_qp(id);
	ibv_dereg_mr(mr);
	ibv_destroy_cq(cq);
	ibv_dealloc_pd(pd);
	rdma_destroy_id(id);
}

static void store(uint64_t first)
{
	for (uint64_t i = 0; i < NUMBERS; i++)
		numbers[i] = first + i;
}

static void serve(struct rdma_event_channel *channel, struct sockaddr_in *address, bool racing)
{
	struct rdma_conn_param param = {.responder_resources = 1, .private_data = &shown, .private_data_len = sizeof(shown)};
	struct rdma_cm_id *listener, *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;

	check(rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP), "rdma_create_id");
	check(rdma_bind_addr(listener, (struct sockaddr *)address) || rdma_listen(listener, 1), "rdma_listen");
	puts("listening");
	fflush(stdout);
	id = await(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
	mr = prepare(id, &pd, &cq, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	store(1);
	shown = (struct place){(uintptr_t)numbers, mr->rkey};
	check(rdma_accept(id, &param), "rdma_accept");
	await(channel, RDMA_CM_EVENT_ESTABLISHED);
	if (racing)
		store(100);
	await(channel, RDMA_CM_EVENT_DISCONNECTED);
	store(200);
	clean_up(id, mr, pd, cq);
	rdma_destroy_id(listener);
}

static void read_numbers(struct rdma_cm_id *id, struct ibv_mr *mr, struct ibv_cq *cq)
{
	struct ibv_sge sge = {(uintptr_t)numbers, NUMBERS * sizeof(*numbers), mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .wr.rdma = {shown.address, shown.rkey}}, *bad;
	struct ibv_wc wc;
	int n;

	check(ibv_post_send(id->qp, &wr, &bad), "ibv_post_send");
	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	check(n < 0 || wc.status, "the READ");
}

static void ask(struct rdma_event_channel *channel, struct sockaddr_in *address)
{
	struct rdma_conn_param param = {.initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;

	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	check(rdma_resolve_addr(id, NULL, (struct sockaddr *)address, 2000), "rdma_resolve_addr");
	await(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
	check(rdma_resolve_route(id, 2000), "rdma_resolve_route");
	await(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
	mr = prepare(id, &pd, &cq, IBV_ACCESS_LOCAL_WRITE);
	check(rdma_connect(id, &param), "rdma_connect");
	await(channel, RDMA_CM_EVENT_ESTABLISHED);
	read_numbers(id, mr, cq);
	check(rdma_disconnect(id), "rdma_disconnect");
	await(channel, RDMA_CM_EVENT_DISCONNECTED);
	clean_up(id, mr, pd, cq);
}

int main(int argc, char **argv)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct sockaddr_in address = {.sin_family = AF_INET};

	check(argc < 4 || !channel || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1, "cm_orders serve|ask ADDRESS PORT");
	address.sin_port = htons((uint16_t)atoi(argv[3]));
	numbers = aligned_alloc(4096, 4096);
	if (!strcmp(argv[1], "serve"))
		serve(channel, &address, argc > 4 && !strcmp(argv[4], "racing"));
	else
		ask(channel, &address);
	rdma_destroy_event_channel(channel);
	return 0;
}
