/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * forked_writers.c: processes, some of them forked, WRITE the same bytes of one target's memory:
 *
 *   forked_writers target PORT WRITERS
 *   forked_writers write PORT              writes
 *   forked_writers racing PORT             forks two children that write
 *   forked_writers ordered PORT            ... and waits for the first one before it forks the second one
 *   forked_writers sharing PORT            as "racing"; they inherit memory that is shared
 *   forked_writers waits PORT              forks one that writes, waits for it, and writes
 *   forked_writers sees PORT               the same, without wait(): SIGCHLD tells it
 *   forked_writers forks PORT              forks one that writes
 *   forked_writers beside PORT             forks one that writes other bytes
 *
 *   forked_writers relay PORT              a target of two writers: "tell" lets "fork_late" begin
 *   forked_writers tell PORT PORT2         writes, and tells that at PORT2
 *   forked_writers child_tells PORT PORT2  forks one that does the same by a socket of its parent's
 *   forked_writers fork_late PORT          is told, and forks one that writes
 *
 *   forked_writers between PORT2 PORT3     forks one that is told at PORT2, and writes a flag at PORT3
 *   forked_writers flagged PORT PORT3      waits for the flag, and writes
 *
 * Nothing else orders these writes.
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "loopback_qp.h"

#define BYTES 4096

struct end {
	uint64_t address;
	uint32_t rkey, qp_num;
};

static uint8_t *memory;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;

static void change(enum ibv_qp_state state, uint32_t peer)
{
	struct ibv_qp_attr attr = loopback_attr(state, peer, IBV_ACCESS_REMOTE_WRITE);

	CHECK(!ibv_modify_qp(qp, &attr, loopback_mask(state)));
}

static void make_domain(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && *list ? ibv_open_device(*list) : NULL;

	pd = context ? ibv_alloc_pd(context) : NULL;
	CHECK(pd);
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	CHECK(mr && cq);
}

static void make_queue_pair(void)
{
	qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){.send_cq = cq,
							  .recv_cq = cq,
							  .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
							  .qp_type = IBV_QPT_RC});
	CHECK(qp);
	change(IBV_QPS_INIT, 0);
}

static struct end connect_over(int socket)
{
	struct end mine = {(uintptr_t)memory, mr->rkey, qp->qp_num}, theirs;

	CHECK(write(socket, &mine, sizeof(mine)) == sizeof(mine));
	CHECK(recv(socket, &theirs, sizeof(theirs), MSG_WAITALL) == sizeof(theirs));
	change(IBV_QPS_RTR, theirs.qp_num);
	change(IBV_QPS_RTS, theirs.qp_num);
	return theirs;
}

static void complete_one(void)
{
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		;
	CHECK(n == 1 && wc.status == IBV_WC_SUCCESS);
}

static void write_to(const struct end *to, uint32_t offset)
{
	struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;

	memory[0] = 1;
	memory[1] = (uint8_t)getpid();
	wr.wr.rdma.remote_addr = to->address + offset;
	wr.wr.rdma.rkey = to->rkey;
	CHECK(!ibv_post_send(qp, &wr, &bad));
	complete_one();
}

/* What a process says first to the target. */
#define WRITES 'w'
#define TELLS  't' /* one byte, when the relay may go on */
#define WAITS  'l' /* for one byte */

static int listen_at(int port)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int listening = socket(AF_INET, SOCK_STREAM, 0), yes = 1;

	setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
	CHECK(!bind(listening, (void *)&at, sizeof(at)) && !listen(listening, 8));
	return listening;
}

static int meet(int port, char as)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int s = socket(AF_INET, SOCK_STREAM, 0);

	while (connect(s, (void *)&at, sizeof(at)))
		usleep(10000);
	CHECK(write(s, &as, 1) == 1);
	return s;
}

static void hear(int socket)
{
	char c;

	CHECK(read(socket, &c, 1) == 1);
}

static void tell(int socket)
{
	CHECK(write(socket, "", 1) == 1);
}

static void await_end(int socket)
{
	char c;

	CHECK(!read(socket, &c, 1));
}

/* The next process: what it is. */
static char take_next(int listening, int *socket)
{
	char as;

	*socket = accept(listening, NULL, NULL);
	CHECK(read(*socket, &as, 1) == 1);
	return as;
}

static void serve_writer(int socket)
{
	make_queue_pair();
	connect_over(socket);
}

static void target(int port, int writers)
{
	int listening = listen_at(port), sockets[8];

	make_domain();
	for (int i = 0; i < writers; i++) {
		CHECK(take_next(listening, &sockets[i]) == WRITES);
		serve_writer(sockets[i]);
	}
	for (int i = 0; i < writers; i++)
		await_end(sockets[i]);
}

/* All three meet it before the one that waits may go on. */
static void relay(int port, int number)
{
	int listening = listen_at(port), first = -1, teller = -1, waiting = -1, second;

	make_domain();
	for (int i = 0; i < 3; i++) {
		int s;
		char as = take_next(listening, &s);

		*(as == WRITES ? &first : as == TELLS ? &teller : &waiting) = s;
		if (as == WRITES)
			serve_writer(s);
	}
	hear(teller);
	tell(waiting);
	CHECK(take_next(listening, &second) == WRITES);
	serve_writer(second);
	await_end(second);
	await_end(first);
}

static int connect_to(int port, struct end *theirs)
{
	int s = meet(port, WRITES);

	make_domain();
	make_queue_pair();
	*theirs = connect_over(s);
	return s;
}

static void write_there(int port, uint32_t offset)
{
	struct end theirs;

	connect_to(port, &theirs);
	write_to(&theirs, offset);
}

static void fork_writer(int port, uint32_t offset)
{
	if (!fork()) {
		write_there(port, offset);
		exit(0);
	}
}

static void wait_for_one(void)
{
	int status;

	CHECK(wait(&status) > 0 && !status);
}

static void race(int port, int number)
{
	fork_writer(port, 0);
	fork_writer(port, 0);
	wait_for_one();
	wait_for_one();
}

static void share(int port, int number)
{
	CHECK(mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
	race(port, number);
}

static void write_by_child(int port, int number)
{
	fork_writer(port, 0);
	wait_for_one();
}

static void fork_in_order(int port, int number)
{
	write_by_child(port, 0);
	write_by_child(port, 0);
}

static void write_after_wait(int port, int number)
{
	write_by_child(port, 0);
	write_there(port, 0);
}

static void write_after_signal(int port, int number)
{
	sigset_t set;
	int got;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fork_writer(port, 0);
	CHECK(!sigwait(&set, &got));
	write_there(port, 0);
}

static void write_beside(int port, int number)
{
	fork_writer(port, 64);
	wait_for_one();
}

static void write_alone(int port, int number)
{
	write_there(port, 0);
}

static void write_and_tell(int port, int port2)
{
	int to = meet(port2, TELLS);

	write_there(port, 0);
	tell(to);
}

static void tell_by_child(int port, int port2)
{
	int to = meet(port2, TELLS);

	if (!fork()) {
		write_there(port, 0);
		tell(to);
		exit(0);
	}
	wait_for_one();
}

static void fork_late(int port, int number)
{
	hear(meet(port, WAITS));
	write_by_child(port, 0);
}

static void pass_on(int port2, int port3)
{
	struct end theirs;
	int told, flagged;

	CHECK(take_next(listen_at(port2), &told) == TELLS);
	flagged = connect_to(port3, &theirs);
	hear(told);
	write_to(&theirs, 0);
	await_end(flagged);
}

static void fork_between(int port2, int port3)
{
	if (!fork()) {
		pass_on(port2, port3);
		exit(0);
	}
	wait_for_one();
}

static void write_when_flagged(int port, int port3)
{
	int s;

	CHECK(take_next(listen_at(port3), &s) == WRITES);
	make_domain();
	serve_writer(s);
	while (!*(volatile uint8_t *)memory)
		;
	close(s);
	write_there(port, 0);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(int port, int number);
	} roles[] = {
		{"target", target}, {"relay", relay}, {"write", write_alone}, {"racing", race}, {"sharing", share}, {"ordered", fork_in_order},
		{"waits", write_after_wait}, {"sees", write_after_signal}, {"forks", write_by_child}, {"beside", write_beside}, {"tell", write_and_tell}, {"child_tells", tell_by_child},
		{"fork_late", fork_late}, {"between", fork_between}, {"flagged", write_when_flagged},
	};

	CHECK(argc > 2);
	for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++)
		if (!strcmp(argv[1], roles[i].name)) {
			roles[i].run(atoi(argv[2]), argc > 3 ? atoi(argv[3]) : 0);
			return 0;
		}
	return 1;
}
