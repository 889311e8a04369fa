/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * forking_server.c: a server that forks for each of its clients, as many do:
 *
 *   forking_server serve PORT CLIENTS
 *   forking_server host PORT CLIENTS     serves the last one itself, when its children have ended
 *   forking_server ask PORT WORD
 *
 * Client and child exchange their queue pairs over the socket.  The client WRITEs its word into the child's memory, which polls
 * it; the child SENDs the word back in capitals, and notes it in memory that it shares with its parent, which prints the
 * sum of all lengths when its children have ended.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "loopback_qp.h"

#define BYTES 4096

#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf(__VA_ARGS__);                                                       \
			printf("\n");                                                              \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

struct end {
	uint64_t address;
	uint32_t rkey, qp_num;
};

static uint8_t *memory;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;

static void change(enum ibv_qp_state state, uint32_t peer)
{
	struct ibv_qp_attr attr = loopback_attr(state, peer, IBV_ACCESS_REMOTE_WRITE);

	CHECK(!ibv_modify_qp(qp, &attr, loopback_mask(state)), "state %d", state);
}

static void make_queue_pair(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

	CHECK(pd, "no device");
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	CHECK(mr && cq, "no memory region or queue");
	qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = cq,
							  .recv_cq = cq,
							  .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
							  .qp_type = IBV_QPT_RC});
	CHECK(qp, "no queue pair");
	change(IBV_QPS_INIT, 0);
}

static struct end connect_over(int socket)
{
	struct end mine = {(uintptr_t)memory, mr->rkey, qp->qp_num}, theirs;

	CHECK(write(socket, &mine, sizeof(mine)) == sizeof(mine), "write");
	CHECK(recv(socket, &theirs, sizeof(theirs), MSG_WAITALL) == sizeof(theirs), "recv");
	change(IBV_QPS_RTR, theirs.qp_num);
	change(IBV_QPS_RTS, theirs.qp_num);
	return theirs;
}

static void meet(int socket)
{
	char c = 0;

	CHECK(write(socket, &c, 1) == 1 && read(socket, &c, 1) == 1, "the other side has ended");
}

static void complete_one(void)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS, "%d: %s", n, ibv_wc_status_str(wc.status));
}

static void post(enum ibv_wr_opcode opcode, const uint8_t *from, uint32_t n, const struct end *to)
{
	struct ibv_sge sge = {(uintptr_t)from, n, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED}, *bad;

	wr.wr.rdma.remote_addr = to->address;
	wr.wr.rdma.rkey = to->rkey;
	CHECK(!ibv_post_send(qp, &wr, &bad), "post");
	complete_one();
}

static int serve_one(int socket, uint64_t *length)
{
	volatile uint8_t *word;
	struct end theirs;
	uint32_t n = 0;

	make_queue_pair();
	word = memory;
	theirs = connect_over(socket);
	meet(socket);
	/* The last byte of the word comes last. */
	while (!word[BYTES / 2])
		;
	for (; word[n]; n++)
		memory[BYTES / 2 + n] = (uint8_t)toupper(word[n]);
	memory[BYTES / 2 + n] = 0;
	*length = n;
	post(IBV_WR_SEND, memory + BYTES / 2, n + 1, &theirs);
	printf("served %s\n", memory);
	return 0;
}

static void serve_in_child(int listening, uint64_t *length)
{
	int socket = accept(listening, NULL, NULL);

	if (!fork()) {
		close(listening);
		exit(serve_one(socket, length));
	}
	close(socket);
}

static int serve(int port, int clients, bool is_host)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint64_t *lengths = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0), sum = 0;
	int listening = socket(AF_INET, SOCK_STREAM, 0), yes = 1, status, children = clients - is_host;

	setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	CHECK(!bind(listening, (void *)&at, sizeof(at)) && !listen(listening, 8), "listen");
	for (int i = 0; i < children; i++)
		serve_in_child(listening, &lengths[i]);
	for (int i = 0; i < children; i++)
		CHECK(wait(&status) > 0 && !status, "a child failed");
	if (is_host)
		serve_one(accept(listening, NULL, NULL), &lengths[children]);
	for (int i = 0; i < clients; i++)
		sum += lengths[i];
	printf("%d clients, %llu letters\n", clients, (unsigned long long)sum);
	return 0;
}

static int ask(int port, const char *word)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int s = socket(AF_INET, SOCK_STREAM, 0);
	struct ibv_sge sge;
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	struct end theirs;

	for (int i = 0; connect(s, (void *)&at, sizeof(at)); i++) {
		CHECK(i < 1000, "nobody listens");
		usleep(10000);
		close(s);
		s = socket(AF_INET, SOCK_STREAM, 0);
	}
	make_queue_pair();
	sge = (struct ibv_sge){(uintptr_t)memory + BYTES / 2, BYTES / 2, mr->lkey};
	theirs = connect_over(s);
	CHECK(!ibv_post_recv(qp, &wr, &bad), "post");
	meet(s);
	strcpy((char *)memory, word);
	post(IBV_WR_RDMA_WRITE, memory, (uint32_t)strlen(word) + 1, &theirs);
	theirs.address += BYTES / 2;
	post(IBV_WR_RDMA_WRITE, memory, 1, &theirs);
	complete_one();
	printf("%s: %s\n", word, memory + BYTES / 2);
	return 0;
}

int main(int argc, char **argv)
{
	CHECK(argc == 4, "usage: forking_server serve PORT CLIENTS | host PORT CLIENTS | ask PORT WORD");
	if (argv[1][0] == 'a')
		return ask(atoi(argv[2]), argv[3]);
	return serve(atoi(argv[2]), atoi(argv[3]), argv[1][0] == 'h');
}
