/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * reconnects.c: connects three times, with a message each way, and destroys all in between.
 *
 *   reconnects            serves
 *   reconnects ADDRESS    connects
 *
 * Identifiers and queue pairs of the next connection mostly have the addresses of the last one's, but other numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include "check.h"

#define PORT   "18711"
#define ROUNDS 3

static char message[64];

static void must(int failed, const char *what)
{
	check(failed ? NULL : message, what);
}

static struct rdma_cm_id *endpoint(const char *address)
{
	struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP, .ai_flags = address ? 0 : RAI_PASSIVE}, *found;
	struct ibv_qp_init_attr attr = {
	    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}, .sq_sig_all = 1};
	struct rdma_cm_id *id;

	must(rdma_getaddrinfo(address, PORT, &hints, &found), "rdma_getaddrinfo");
	must(rdma_create_ep(&id, found, NULL, &attr), "rdma_create_ep");
	rdma_freeaddrinfo(found);
	return id;
}

static void receive_next(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	memset(message, 0, sizeof(message));
	must(rdma_post_recv(id, NULL, message, sizeof(message), mr), "rdma_post_recv");
}

static void show(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	must(rdma_get_recv_comp(id, &wc) != 1 || wc.status, "rdma_get_recv_comp");
	printf("%s\n", message);
}

static void say(struct rdma_cm_id *id, struct ibv_mr *mr, const char *from, int round)
{
	struct ibv_wc wc;

	snprintf(message, sizeof(message), "round %d, from the %s", round, from);
	must(rdma_post_send(id, NULL, message, sizeof(message), mr, 0), "rdma_post_send");
	must(rdma_get_send_comp(id, &wc) != 1 || wc.status, "rdma_get_send_comp");
}

static void end(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	rdma_disconnect(id);
	must(rdma_dereg_mr(mr), "rdma_dereg_mr");
	rdma_destroy_ep(id);
}

static void serve(void)
{
	struct rdma_cm_id *listening = endpoint(NULL), *id;

	must(rdma_listen(listening, 1), "rdma_listen");
	for (int round = 0; round < ROUNDS; round++) {
		struct ibv_mr *mr;

		must(rdma_get_request(listening, &id), "rdma_get_request");
		mr = check(rdma_reg_msgs(id, message, sizeof(message)), "rdma_reg_msgs");
		receive_next(id, mr);
		must(rdma_accept(id, NULL), "rdma_accept");
		show(id);
		say(id, mr, "server", round);
		end(id, mr);
	}
	rdma_destroy_ep(listening);
}

static void connect_to(const char *address)
{
	static char sent[sizeof(message)];

	for (int round = 0; round < ROUNDS; round++) {
		struct rdma_cm_id *id = endpoint(address);
		struct ibv_mr *mr = check(rdma_reg_msgs(id, message, sizeof(message)), "rdma_reg_msgs");
		struct ibv_mr *of = check(rdma_reg_msgs(id, sent, sizeof(sent)), "rdma_reg_msgs");
		struct ibv_wc wc;

		receive_next(id, mr);
		must(rdma_connect(id, NULL), "rdma_connect");
		snprintf(sent, sizeof(sent), "round %d, from the client", round);
		must(rdma_post_send(id, NULL, sent, sizeof(sent), of, 0), "rdma_post_send");
		must(rdma_get_send_comp(id, &wc) != 1 || wc.status, "rdma_get_send_comp");
		show(id);
		must(rdma_dereg_mr(of), "rdma_dereg_mr");
		end(id, mr);
	}
}

int main(int argc, char **argv)
{
	if (argc > 1)
		connect_to(argv[1]);
	else
		serve();
	return 0;
}
