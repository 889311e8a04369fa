/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * classics.c: four programs of the papers on tracing the order of messages (Netzer and Miller 1992, table 1), by messages alone.
 *
 *   classics master|mesh|product|gauss [SIZE]
 *
 *   master    rank 0 hands out SIZE tasks, the next one to whichever rank has done its own
 *   mesh      SIZE iterations over a ring of ranks, each of which waits for its two neighbours' borders
 *   product   of two matrices of SIZE columns, one of which goes around the ring
 *   gauss     elimination of SIZE rows, the pivot's sent by its owner to all
 *
 * Completions of messages come in one completion queue.  Each rank prints how many came, how many of another sender than the one
 * before, and how many of these might have come before that one as far as the sender knew: which race.
 */
#include <string.h>

#include "pgas/internal.h"

#define BUFFERS	 16
#define NUMBERS	 64
#define MOST     4096 /* SIZE */
#define WINDOW	 64   /* rows that a rank may have before it needs them */
#define SEND	 UINT64_MAX /* wr_id */

/* known: of each rank, how many messages the sender knew it to have taken. */
struct message {
	uint64_t tag, known[PGAS_MAX_RANKS];
	double numbers[NUMBERS];
};

static struct ibv_qp *qps[PGAS_MAX_RANKS];
static struct ibv_cq *cq, *send_cq;
static struct message *in, *out;
static uint64_t known[PGAS_MAX_RANKS], messages, switches, racing, last_taken;
static int last = -1;

/* ------------------------------------------------------------------ messages */

static void post_receive(uint64_t buffer)
{
	struct ibv_sge sge = {(uintptr_t)&in[buffer], sizeof(*in), pgas.private.mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = buffer, .sg_list = &sge, .num_sge = 1};

	if (ibv_post_recv(qps[buffer / BUFFERS], &wr, &bad))
		pgas_fail("cannot post a receive: %m");
}

static bool poll(struct ibv_cq *from, struct ibv_wc *wc)
{
	int n = ibv_poll_cq(from, 1, wc);

	if (n < 0 || (n && wc->status != IBV_WC_SUCCESS))
		pgas_fail("a completion failed: %s", ibv_wc_status_str(wc->status));
	return n;
}

/* What is sent is out.numbers. */
static void send(int to, uint64_t tag)
{
	struct ibv_sge sge = {(uintptr_t)out, sizeof(*out), pgas.private.mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = SEND, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct pgas_patience patience = {0};
	struct ibv_wc wc;

	out->tag = tag;
	memcpy(out->known, known, sizeof(known));
	if (ibv_post_send(qps[to], &wr, &bad))
		pgas_fail("cannot post a send: %m");
	while (!poll(send_cq, &wc))
		pgas_relax(&patience);
}

static void count(int from, const struct message *m)
{
	messages++;
	if (last >= 0 && last != from) {
		switches++;
		racing += m->known[pgas.rank] < last_taken;
	}
	for (int i = 0; i < pgas.ranks; i++)
		known[i] = m->known[i] > known[i] ? m->known[i] : known[i];
	last = from;
	last_taken = ++known[pgas.rank];
}

/* The next message, from whomever; its sender. */
static int take(struct message *m)
{
	struct pgas_patience patience = {0};
	struct ibv_wc wc;

	while (!poll(cq, &wc))
		pgas_relax(&patience);
	*m = in[wc.wr_id];
	post_receive(wc.wr_id);
	count((int)(wc.wr_id / BUFFERS), m);
	return (int)(wc.wr_id / BUFFERS);
}

/* ------------------------------------------------------------------ programs */

static double work_on(uint64_t task)
{
	uint64_t state = task, steps = 200 + pgas_random(&state) % 2000;
	double sum = 0;

	for (uint64_t i = 1; i <= steps; i++)
		sum += 1.0 / (double)(i * (task + 1));
	return sum;
}

static double hand_out(uint64_t tasks)
{
	uint64_t next = 0, done = 0;
	struct message m;
	double sum = 0;

	for (int r = 1; r < pgas.ranks && next < tasks; r++)
		send(r, ++next);
	for (; done < tasks; done++) {
		int from = take(&m);

		sum += m.numbers[0];
		if (next < tasks)
			send(from, ++next);
	}
	for (int r = 1; r < pgas.ranks; r++)
		send(r, 0);
	return sum;
}

static double master(uint64_t tasks)
{
	struct message m;

	if (!pgas.rank)
		return hand_out(tasks);
	for (take(&m); m.tag; take(&m)) {
		out->numbers[0] = work_on(m.tag);
		send(0, m.tag);
	}
	return 0;
}

/* The two borders of an iteration; a neighbour may be one ahead. */
static double mesh(uint64_t iterations)
{
	const int left = (pgas.rank + pgas.ranks - 1) % pgas.ranks, right = (pgas.rank + 1) % pgas.ranks;
	static double border[2][2];
	uint64_t come[2] = {0, 0};
	double value = pgas.rank;
	struct message m;

	for (uint64_t i = 0; i < iterations; i++) {
		out->numbers[0] = value;
		send(left, i);
		send(right, i);
		while (come[i % 2] < 2) {
			int from = take(&m);

			border[m.tag % 2][from == right] = m.numbers[0];
			come[m.tag % 2]++;
		}
		come[i % 2] = 0;
		value = (border[i % 2][0] + value + border[i % 2][1]) / 3;
	}
	return value;
}

static double product(uint64_t columns)
{
	struct message m = {.tag = 0};
	double sum = 0;

	for (int i = 0; i < NUMBERS; i++)
		m.numbers[i] = pgas.rank * NUMBERS + i;
	for (uint64_t step = 0; step < columns; step++) {
		for (int i = 0; i < NUMBERS; i++)
			sum += m.numbers[i] * (double)(step + 1);
		memcpy(out->numbers, m.numbers, sizeof(m.numbers));
		send((pgas.rank + 1) % pgas.ranks, step);
		take(&m);
	}
	return sum;
}

static double gauss(uint64_t rows)
{
	static struct message row[WINDOW];
	double sum = 0;

	for (uint64_t k = 0; k < rows; k++) {
		const int owner = (int)(k % (uint64_t)pgas.ranks);

		if (owner == pgas.rank) {
			for (int i = 0; i < NUMBERS; i++)
				out->numbers[i] = sum / (double)(k + 1) + i;
			for (int r = 0; r < pgas.ranks; r++)
				if (r != pgas.rank)
					send(r, k);
			row[k % WINDOW] = *out;
		}
		while (row[k % WINDOW].tag != k || !row[k % WINDOW].numbers[1]) {
			struct message m;

			take(&m);
			row[m.tag % WINDOW] = m;
		}
		for (int i = 0; i < NUMBERS; i++)
			sum += row[k % WINDOW].numbers[i] / (double)(k + 1);
	}
	return sum;
}

static const struct {
	const char *name;
	double (*run)(uint64_t size);
} programs[] = {{"master", master}, {"mesh", mesh}, {"product", product}, {"gauss", gauss}};

/* ---------------------------------------------------------------------- main */

static void set_up(void)
{
	struct ibv_qp_init_attr attr = {.cap = {4, BUFFERS, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	attr.recv_cq = cq = ibv_create_cq(pgas.device, PGAS_MAX_RANKS * BUFFERS, NULL, NULL, 0);
	attr.send_cq = send_cq = ibv_create_cq(pgas.device, 16, NULL, NULL, 0);
	in = pgas_private((size_t)pgas.ranks * BUFFERS * sizeof(*in));
	out = pgas_private(sizeof(*out));
	for (int r = 0; r < pgas.ranks; r++) {
		qps[r] = ibv_create_qp(pgas.pd, &attr);
		if (!qps[r])
			pgas_fail("cannot create a queue pair: %m");
		pgas_prepare_queue_pair(qps[r]);
		for (uint64_t b = 0; b < BUFFERS; b++)
			post_receive((uint64_t)r * BUFFERS + b);
	}
	pgas_connect_more(qps);
}

int main(int argc, char **argv)
{
	static const char usage[] = "classics master|mesh|product|gauss [SIZE]";
	uint64_t size = (uint64_t)pgas_argument(argc, argv, 2, 200, 2, usage);
	double result = 0;
	size_t p = 0;
	bool right;

	while (argc > 1 && p < 4 && strcmp(argv[1], programs[p].name))
		p++;
	if (argc < 2 || p == 4 || size > MOST)
		pgas_fail("%s", usage);
	pgas_start(1 << 16, (PGAS_MAX_RANKS * BUFFERS + 1) * sizeof(struct message));
	set_up();
	pgas_barrier();
	result = programs[p].run(size);
	pgas_barrier();
	right = pgas_result(true, "rank %d: %.10g, %llu messages, %llu of another sender, %llu race", pgas.rank, result,
			    (unsigned long long)messages, (unsigned long long)switches, (unsigned long long)racing);
	for (int r = 0; r < pgas.ranks; r++)
		ibv_destroy_qp(qps[r]);
	ibv_destroy_cq(send_cq);
	ibv_destroy_cq(cq);
	return pgas_end(right);
}
