/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * many.c: threads that post on many queue pairs, each connected to itself.
 *
 *   many THREADS QUEUE-PAIRS MESSAGES
 *
 * Each thread has a completion queue and its share of the queue pairs, and sends its share of the
 * messages, of 64 bytes, over them in turn, with up to 32 under way.  Prints microseconds a message,
 * seconds until all are connected, and the most memory that the process had, in KiB.
 */
#include <pthread.h>
#include <string.h>

#include "bench/rc.h"

#define BYTES 64
#define MOST  32

struct poster {
	pthread_t thread;
	struct ibv_cq *cq;
	struct ibv_qp **qps;
	struct ibv_mr *mr;
	char *memory;
	int n, messages;
};

static pthread_barrier_t ready;

static struct ibv_qp *connected_to_itself(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp *qp = make_qp(pd, cq, cq, 2 * MOST);

	bring_up(qp, (struct ibv_qp_attr){.port_num = 1,
					  .path_mtu = IBV_MTU_1024,
					  .dest_qp_num = qp->qp_num,
					  .ah_attr = {.is_global = 1, .grh.dgid.raw = {[10] = 0xff, 0xff, 127, 0, 0, 1}, .port_num = 1},
					  .max_dest_rd_atomic = 1,
					  .max_rd_atomic = 1});
	return qp;
}

static void set_up(struct poster *p, struct ibv_context *context)
{
	struct ibv_pd *pd = ibv_alloc_pd(context);

	p->memory = calloc(2, BYTES);
	p->cq = pd ? ibv_create_cq(context, 4 * MOST, NULL, NULL, 0) : NULL;
	p->mr = p->cq ? ibv_reg_mr(pd, p->memory, 2 * BYTES, IBV_ACCESS_LOCAL_WRITE) : NULL;
	p->qps = calloc((size_t)p->n, sizeof(*p->qps));
	if (!p->mr || !p->qps)
		die("set-up");
	for (int i = 0; i < p->n; i++)
		p->qps[i] = connected_to_itself(pd, p->cq);
}

static void post(struct poster *p, struct ibv_qp *qp)
{
	struct ibv_sge from = {(uintptr_t)p->memory, BYTES, p->mr->lkey};
	struct ibv_sge to = {(uintptr_t)p->memory + BYTES, BYTES, p->mr->lkey};
	struct ibv_recv_wr receive = {.sg_list = &to, .num_sge = 1}, *bad_receive;
	struct ibv_send_wr send = {.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad_send;

	if (ibv_post_recv(qp, &receive, &bad_receive) || ibv_post_send(qp, &send, &bad_send))
		die("post");
}

static int poll(struct poster *p)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(p->cq, 16, wc);

	if (n < 0)
		die("ibv_poll_cq");
	for (int i = 0; i < n; i++)
		if (wc[i].status)
			die(ibv_wc_status_str(wc[i].status));
	return n;
}

static void *work(void *argument)
{
	struct poster *p = argument;
	int left = 0;

	pthread_barrier_wait(&ready);
	for (int i = 0; i < p->messages; i++) {
		memcpy(p->memory, &i, sizeof(i));
		post(p, p->qps[i % p->n]);
		for (left += 2; left > 2 * MOST - 2; left -= poll(p))
			;
	}
	while (left)
		left -= poll(p);
	return NULL;
}

/* getrusage would tell of what the process was before its exec as well. */
static long most_memory(void)
{
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");
	long kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmHWM: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

int main(int argc, char **argv)
{
	int threads = argc > 3 ? atoi(argv[1]) : 0, qps = argc > 3 ? atoi(argv[2]) : 0, messages = argc > 3 ? atoi(argv[3]) : 0;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct poster *p = calloc((size_t)threads + 1, sizeof(*p));
	double begin = now(), connected, end;

	if (!context || threads < 1 || qps < threads || messages < threads || !p)
		die("many THREADS QUEUE-PAIRS MESSAGES");
	for (int i = 0; i < threads; i++) {
		p[i].n = qps / threads;
		p[i].messages = messages / threads;
		set_up(&p[i], context);
	}
	connected = now();
	pthread_barrier_init(&ready, NULL, (unsigned int)threads);
	for (int i = 1; i < threads; i++)
		if (pthread_create(&p[i].thread, NULL, work, &p[i]))
			die("pthread_create");
	work(&p[0]);
	for (int i = 1; i < threads; i++)
		pthread_join(p[i].thread, NULL);
	end = now();
	printf("us %.4f setup %.4f kib %ld\n", (end - connected) / 1e3 / messages, (connected - begin) / 1e9, most_memory());
	return 0;
}
