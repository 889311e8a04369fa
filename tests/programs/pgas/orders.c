/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * orders.c: small programs whose order depends on how their memory, queue pairs and receives were made, for `sreplay
 * races`.
 *
 *   orders CASE
 *   orders         lists the cases
 *
 * "relaxed" is memory that is registered with IBV_ACCESS_RELAXED_ORDERING, "strict" without; "in-order" asks for
 * ibv_query_qp_data_in_order; "messages" come to one shared receive queue; "annotated" says what orders it by
 * sreplay/annotate.h; a "segment" is memory that a rank made for itself, or that all ranks share.  "sc" is what sequential consistency is lost by, or kept.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <unistd.h>

#include "pgas/internal.h"
#include "sreplay/annotate.h"

#define BYTES    1024
#define OWNER    2
#define FLAG     2048 /* offset in the extra region */
#define RECEIVES 8
#define TIME_IT_TAKES 20000 /* us */

struct shared {
	uint64_t address, key, told, flag;
	char data[BYTES];
	uint64_t x, y;
};

static struct shared *shared;
static char *extra;
static struct ibv_mr *region;
static bool right = true;

static bool is(int rank)
{
	return pgas.rank == rank;
}

/* ------------------------------------------------------------------- memory */

static void tell(int rank)
{
	pgas_put(rank, &shared->address, &(uint64_t){(uintptr_t)extra}, 8);
	pgas_put(rank, &shared->key, &(uint64_t){region->rkey}, 8);
	pgas_put(rank, &shared->told, &(uint64_t){1}, 8);
}

/* The owner registers a page, and tells rank 0. */
static void register_extra(unsigned int more, bool looks)
{
	if (is(OWNER)) {
		extra = aligned_alloc(4096, 4096);
		memset(extra, 0, 4096);
		region = ibv_reg_mr(pgas.pd, extra, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | more);
		if (!region)
			pgas_fail("cannot register");
		right = !looks || !pgas_load((uint64_t *)(extra + FLAG));
		tell(0);
	} else if (is(0)) {
		pgas_wait_for(&shared->told, 1);
	}
}

/* Rank 0 writes to the page. */
static void put(uint64_t offset, uint64_t value, uint32_t bytes)
{
	struct pgas_peer *peer = &pgas.peers[OWNER];
	uint64_t *from = pgas_private(bytes);
	struct ibv_sge sge = {.addr = (uintptr_t)from, .length = bytes, .lkey = pgas.private.mr->lkey};
	struct ibv_send_wr wr = {.wr_id = OWNER,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {.remote_addr = shared->address + offset, .rkey = (uint32_t)shared->key}},
			   *bad;

	for (uint32_t i = 0; i < bytes / 8; i++)
		from[i] = value;
	if (ibv_post_send(peer->qp, &wr, &bad))
		pgas_fail("cannot post");
	peer->posted++;
}

/* looks: the owner looks before; otherwise its first load of the page finds the data beside the flag. */
static void flagged(unsigned int more, bool waits, bool looks)
{
	register_extra(more, looks);
	usleep(is(OWNER) && !looks ? 5 * TIME_IT_TAKES : 0);
	if (is(0)) {
		usleep(TIME_IT_TAKES);
		put(0, 7, BYTES);
		if (waits)
			pgas_quiet();
		put(FLAG, 1, 8);
		pgas_quiet();
	} else if (is(OWNER)) {
		pgas_wait_for((uint64_t *)(extra + FLAG), 1);
		right = right && pgas_load((uint64_t *)(extra + 512)) == 7;
	}
}

static void relaxed_flag(void)
{
	flagged(IBV_ACCESS_RELAXED_ORDERING, false, true);
}

static void relaxed_flag_late(void)
{
	flagged(IBV_ACCESS_RELAXED_ORDERING, false, false);
}

static void relaxed_completion(void)
{
	flagged(IBV_ACCESS_RELAXED_ORDERING, true, true);
}

static void strict_flag(void)
{
	flagged(0, false, true);
}

static void in_order_flag(void)
{
	if (is(OWNER) && !ibv_query_qp_data_in_order(pgas.peers[0].qp, IBV_WR_RDMA_WRITE, 0))
		pgas_fail("the device says that data does not come in order");
	flagged(0, false, true);
}

static void twice(unsigned int more, bool waits)
{
	register_extra(more, true);
	if (!is(0))
		return;
	put(0, 7, BYTES);
	if (waits)
		pgas_quiet();
	put(0, 8, BYTES);
	pgas_quiet();
}

static void relaxed_twice(void)
{
	twice(IBV_ACCESS_RELAXED_ORDERING, false);
}

static void relaxed_twice_completion(void)
{
	twice(IBV_ACCESS_RELAXED_ORDERING, true);
}

static void strict_twice(void)
{
	twice(0, false);
}

/* ----------------------------------------------------------------- messages */

static struct ibv_cq *cq;
static struct ibv_srq *srq;
static struct ibv_qp *qps[PGAS_MAX_RANKS];
static char *buffers;
static bool one_buffer; /* for all receives */

static void poll(int completions)
{
	struct ibv_wc wc;

	while (completions) {
		int n = ibv_poll_cq(cq, 1, &wc);

		if (n < 0 || (n && wc.status))
			pgas_fail("a completion failed");
		completions -= n;
	}
}

static void make_queue_pairs(void)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq, .recv_cq = cq, .srq = srq, .cap = {4, 0, 1, 1, 0}, .qp_type = IBV_QPT_RC};

	pgas_make_queue_pairs(qps, &attr);
}

static void set_up_messages(void)
{
	struct ibv_srq_init_attr attr = {.attr = {RECEIVES, 1, 0}};
	struct ibv_recv_wr *bad;

	buffers = pgas_private(RECEIVES * BYTES);
	cq = ibv_create_cq(pgas.device, 64, NULL, NULL, 0);
	srq = ibv_create_srq(pgas.pd, &attr);
	if (!cq || !srq)
		pgas_fail("cannot create a shared receive queue");
	make_queue_pairs();
	for (uint64_t i = 0; i < RECEIVES; i++) {
		struct ibv_sge sge = {(uintptr_t)(buffers + (one_buffer ? 0 : i * BYTES)), BYTES, pgas.private.mr->lkey};

		if (ibv_post_srq_recv(srq, &(struct ibv_recv_wr){.wr_id = i, .sg_list = &sge, .num_sge = 1}, &bad))
			pgas_fail("cannot post a receive");
	}
	pgas_barrier();
}

static void send(void)
{
	struct ibv_sge sge = {(uintptr_t)pgas_private(64), 64, pgas.private.mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};

	if (ibv_post_send(qps[OWNER], &wr, &bad))
		pgas_fail("cannot send");
	poll(1);
}

static void end_messages(void)
{
	pgas_barrier();
	for (int i = 0; i < pgas.ranks; i++)
		ibv_destroy_qp(qps[i]);
}

static void two_messages(bool waits)
{
	set_up_messages();
	if (is(0)) {
		send();
		pgas_put(1, &shared->flag, &(uint64_t){1}, 8);
	} else if (is(1)) {
		if (waits)
			pgas_wait_for(&shared->flag, 1);
		send();
	} else if (is(OWNER)) {
		poll(2);
	}
	end_messages();
}

static void messages_racing(void)
{
	two_messages(false);
}

static void messages_flag(void)
{
	two_messages(true);
}

/* The owner waits for the first of two messages, between which its word is written; it asks for several, and both have come. */
static void messages_at_once(void)
{
	struct ibv_wc came[4];
	int n = 0;

	set_up_messages();
	if (is(0)) {
		send();
		pgas_put(OWNER, &shared->x, &(uint64_t){1}, 8);
		send();
	} else if (is(OWNER)) {
		usleep(TIME_IT_TAKES);
		while (!n)
			n = ibv_poll_cq(cq, 4, came);
		pgas_store(&shared->x, 2);
		poll(2 - n);
	}
	end_messages();
}

/* Two of one queue pair, or of two, come to receives with the same buffer. */
static void messages_to_one_buffer(void)
{
	one_buffer = true;
	set_up_messages();
	if (is(0)) {
		send();
		send();
	} else if (is(OWNER)) {
		poll(2);
	}
	end_messages();
}

static void messages_to_one_buffer_racing(void)
{
	one_buffer = true;
	two_messages(false);
}

/* -------------------------------------------------------------- annotations */

/* Ranks 0 and 1 write to the same memory, one after the other by time alone: only what they say orders them. */
static void put_shared(void)
{
	char *from = pgas_private(BYTES);

	memset(from, pgas.rank + 1, BYTES);
	pgas_start_put(OWNER, shared->data, from, BYTES);
	pgas_quiet();
}

static void locked(uint64_t lock_of_0, uint64_t lock_of_1)
{
	if (is(OWNER))
		return;
	usleep(is(0) ? 0 : 100000);
	if (lock_of_0)
		sreplay_lock(is(0) ? lock_of_0 : lock_of_1);
	put_shared();
	if (lock_of_0)
		sreplay_unlock(is(0) ? lock_of_0 : lock_of_1);
}

static void annotated_nothing(void)
{
	locked(0, 0);
}

static void annotated_lock(void)
{
	locked(5, 5);
}

static void annotated_two_locks(void)
{
	locked(5, 6);
}

static void annotated_barrier(void)
{
	if (is(0))
		put_shared();
	sreplay_barrier_enter(1);
	usleep(100000);
	sreplay_barrier_leave(1);
	if (is(1))
		put_shared();
}

static void annotated_benign(void)
{
	if (is(OWNER))
		sreplay_benign(shared->data, BYTES);
	locked(0, 0);
}

/* ------------------------------------------------------- sequential consistency */

static const uint64_t one = 1;

/* Ranks 0 and 1 write to each other, and look what has come from the other one: is it as if nobody had written? */
static void store_buffer(bool waits)
{
	const int other = 1 - pgas.rank;
	uint64_t found;

	pgas_barrier();
	if (!is(0) && !is(1))
		return;
	pgas_start_put(other, &shared->x, &one, 8);
	if (waits)
		pgas_quiet();
	found = pgas_load(&shared->x);
	pgas_quiet();
	pgas_wait_for(&shared->x, 1);
	printf("found %d\n", (int)found);
}

static void sc_store_buffer(void)
{
	store_buffer(false);
}

static void sc_store_buffer_completion(void)
{
	store_buffer(true);
}

/* Rank 0 puts data into the owner's memory, and then a flag, on another queue pair or on the same one. */
static void pass_message(bool one_queue, bool waits)
{
	struct ibv_qp *own = pgas.peers[OWNER].qp;

	cq = pgas.cq;
	make_queue_pairs();
	pgas_barrier();
	if (is(0)) {
		pgas_start_put(OWNER, &shared->x, &one, 8);
		if (waits)
			pgas_quiet();
		pgas.peers[OWNER].qp = one_queue ? own : qps[OWNER];
		pgas_start_put(OWNER, &shared->y, &one, 8);
		pgas_quiet();
		pgas.peers[OWNER].qp = own;
	} else if (is(OWNER)) {
		pgas_wait_for(&shared->y, 1);
		printf("found %d\n", (int)pgas_load(&shared->x));
	}
	end_messages();
}

static void sc_two_queues(void)
{
	pass_message(false, false);
}

static void sc_two_queues_completion(void)
{
	pass_message(false, true);
}

static void sc_one_queue(void)
{
	pass_message(true, false);
}

/* Rank 0 fetches x and then writes y, rank 1 fetches y and, when it has it, writes x: do both find what comes later? */
static void load_buffer(unsigned int flags)
{
	struct pgas_peer *peer = &pgas.peers[OWNER];
	uint64_t *to = pgas_private(16), *from = pgas_private(8);
	struct ibv_sge sges[] = {{(uintptr_t)to, 8, pgas.private.mr->lkey}, {(uintptr_t)from, 8, pgas.private.mr->lkey}};
	struct ibv_send_wr *bad, wrs[2] = {
		{.wr_id = OWNER, .next = &wrs[1], .sg_list = &sges[0], .num_sge = 1, .opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED},
		{.wr_id = OWNER, .sg_list = &sges[1], .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED | flags}};

	*from = 1;
	for (int i = 0; i < 2; i++)
		wrs[i].wr.rdma.rkey = peer->rkey;
	wrs[0].wr.rdma.remote_addr = peer->base + (uint64_t)((char *)&shared->x - pgas.shared.base);
	wrs[1].wr.rdma.remote_addr = peer->base + (uint64_t)((char *)&shared->y - pgas.shared.base);
	pgas_barrier();
	if (is(0)) {
		if (ibv_post_send(peer->qp, wrs, &bad))
			pgas_fail("cannot post");
		peer->posted += 2;
		pgas_quiet();
		printf("found %d\n", (int)to[0]);
	} else if (is(1)) {
		pgas_get(OWNER, to, &shared->y, 8);
		pgas_put(OWNER, &shared->x, &one, 8);
		printf("found %d\n", (int)to[0]);
	}
}

static void sc_load_buffer(void)
{
	load_buffer(0);
}

static void sc_load_buffer_fence(void)
{
	load_buffer(IBV_SEND_FENCE);
}

/* ------------------------------------------------- memory that processes of one machine share */

static void write_both(void)
{
	pgas_barrier();
	if (!is(OWNER))
		pgas_put(OWNER, &shared->x, &(uint64_t){(uint64_t)pgas.rank + 1}, 8);
}

static int make_segment(void)
{
	int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);

	if (id < 0)
		pgas_fail("cannot make a segment");
	return id;
}

static void *attached(int id)
{
	void *p = shmat(id, NULL, 0);

	if (p == (void *)-1)
		pgas_fail("cannot attach a segment");
	pgas_barrier();
	shmctl(id, IPC_RMID, NULL);
	return p;
}

static void attach(int id)
{
	shmdt(attached(id));
}

/* Each rank makes some for itself, as a library does that wants to know whether it can. */
static void own_segment(void)
{
	char path[64];
	int fd;

	attach(make_segment());
	snprintf(path, sizeof(path), "/dev/shm/orders-%d", (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		pgas_fail("cannot make %s", path);
	unlink(path);
	close(fd);
	write_both();
}

/* Rank 0's, as all ranks know it. */
static int common_segment(void)
{
	int id = is(0) ? make_segment() : 0;

	for (int i = 1; is(0) && i < pgas.ranks; i++) {
		pgas_put(i, &shared->key, &(uint64_t){(uint64_t)id}, 8);
		pgas_put(i, &shared->told, &(uint64_t){1}, 8);
	}
	if (!is(0)) {
		pgas_wait_for(&shared->told, 1);
		id = (int)shared->key;
	}
	return id;
}

/* The ranks may order their writes by what they store there. */
static void shared_segment(void)
{
	attach(common_segment());
	write_both();
}

/* They do. */
static void shared_flag(void)
{
	_Atomic uint64_t *flag = attached(common_segment());

	pgas_barrier();
	while (is(1) && !atomic_load(flag))
		;
	if (!is(OWNER)) {
		pgas_put(OWNER, &shared->x, &(uint64_t){(uint64_t)pgas.rank + 1}, 8);
		pgas_quiet();
	}
	if (is(0))
		atomic_store(flag, 1);
	pgas_barrier();
	shmdt((void *)flag);
}

/* ---------------------------------------------------------------------- all */

static const struct pgas_case cases[] = {
    {"relaxed-flag", relaxed_flag},
    {"relaxed-flag-late", relaxed_flag_late},
    {"relaxed-completion", relaxed_completion},
    {"strict-flag", strict_flag},
    {"in-order-flag", in_order_flag},
    {"relaxed-twice", relaxed_twice},
    {"relaxed-twice-completion", relaxed_twice_completion},
    {"strict-twice", strict_twice},
    {"messages-racing", messages_racing},
    {"messages-flag", messages_flag},
    {"messages-to-one-buffer", messages_to_one_buffer},
    {"messages-to-one-buffer-racing", messages_to_one_buffer_racing},
    {"messages-at-once", messages_at_once},
    {"own-segment", own_segment},
    {"shared-segment", shared_segment},
    {"shared-flag", shared_flag},
    {"annotated-nothing", annotated_nothing},
    {"annotated-lock", annotated_lock},
    {"annotated-two-locks", annotated_two_locks},
    {"annotated-barrier", annotated_barrier},
    {"annotated-benign", annotated_benign},
    {"sc-store-buffer", sc_store_buffer},
    {"sc-store-buffer-completion", sc_store_buffer_completion},
    {"sc-two-queues", sc_two_queues},
    {"sc-two-queues-completion", sc_two_queues_completion},
    {"sc-one-queue", sc_one_queue},
    {"sc-load-buffer", sc_load_buffer},
    {"sc-load-buffer-fence", sc_load_buffer_fence},
};

int main(int argc, char **argv)
{
	const struct pgas_case *chosen = pgas_case(argc, argv, cases, sizeof(cases) / sizeof(*cases));

	pgas_start(sizeof(*shared) + 65536, 65536);
	shared = pgas_shared(sizeof(*shared));
	pgas_barrier();
	chosen->run();
	pgas_barrier();
	if (region)
		ibv_dereg_mr(region);
	return pgas_end(pgas_result(right, "%s", argv[1]));
}
