/* SPDX-License-Identifier: BSD-2-Clause */
/* requests.c: lists, polls and memory that are odd or gone. */
#include "hostile_verbs/shared.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>

static int send_list(struct ibv_sge *list, int n, unsigned int flags, struct ibv_send_wr **bad)
{
	static struct ibv_send_wr wr;

	wr = (struct ibv_send_wr){
	    .wr_id = 1, .sg_list = list, .num_sge = n, .opcode = IBV_WR_SEND, .send_flags = flags};
	*bad = NULL;
	return *bad == &wr ? -1 : ibv_post_send(qp, &wr, bad);
}

/* A provider refuses a list that is too long before it looks at it. */
static void lists_that_are_too_long(void)
{
	char *two = map(2 * PAGE);
	struct ibv_sge *list = (struct ibv_sge *)(two + PAGE) - 1;
	struct ibv_recv_wr recv = {.wr_id = 1, .sg_list = list}, *bad_recv;
	static const int lengths[] = {5, 100000, INT_MAX};
	struct ibv_send_wr *bad;

	mprotect(two + PAGE, PAGE, PROT_NONE);
	*list = piece(0, 8);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		recv.num_sge = lengths[i];
		printf("recv %d:", ibv_post_recv(qp, &recv, &bad_recv));
		printf(" %d", bad_recv == &recv);
		printf(" send %d", send_list(list, lengths[i], 0, &bad));
		printf(" inline %d\n", send_list(list, lengths[i], IBV_SEND_INLINE, &bad));
	}
	show_completions();
}

/* Inline data is refused by its length. */
static void inline_data_that_is_too_long(void)
{
	char *two = map(2 * PAGE);
	struct ibv_sge list = {(uintptr_t)two + PAGE - 8, 100000, 0};
	struct ibv_send_wr *bad;

	mprotect(two + PAGE, PAGE, PROT_NONE);
	printf("inline: %d\n", send_list(&list, 1, IBV_SEND_INLINE, &bad));
	show_completions();
}

/* Requests in memory that cannot be written, and that one post after the other uses. */
static void requests_in_constant_memory(void)
{
	struct ibv_send_wr *wr = (void *)map(PAGE), *bad;
	struct ibv_wc wc;
	struct ibv_sge *sge = (void *)(wr + 4);
	struct ibv_recv_wr *recv = (void *)(sge + 1), *bad_recv;

	*sge = piece(0, 8);
	for (int i = 0; i < 4; i++)
		wr[i] = (struct ibv_send_wr){.wr_id = (uintptr_t)&wr[i],
					     .next = i < 3 ? &wr[i + 1] : NULL,
					     .sg_list = sge,
					     .num_sge = i == 2 ? 5 : 1,
					     .opcode = IBV_WR_SEND,
					     .send_flags = IBV_SEND_SIGNALED};
	*recv = (struct ibv_recv_wr){.wr_id = (uintptr_t)recv, .sg_list = sge, .num_sge = 1};
	mprotect(wr, PAGE, PROT_READ);
	for (int i = 0; i < 2; i++) {
		for (int n = 0; n < 4; n++)
			printf("recv %d ", ibv_post_recv(qp, recv, &bad_recv));
		printf("send %d", ibv_post_send(qp, wr, &bad));
		printf(" bad %td\n", bad - wr);
	}
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		printf("wc %lld\n", (long long)(wc.wr_id - (uintptr_t)wr));
}

static void odd_polls(void)
{
	struct ibv_wc wc[200];

	for (uint64_t i = 0; i < 20; i++)
		if (receive(qp, i, piece(0, 64)) ||
		    send_it(qp, 100 + i, piece(PAGE, 64), IBV_SEND_SIGNALED))
			printf("post fails\n");
	printf("none %d", ibv_poll_cq(cq, 0, wc));
	printf(" less %d", ibv_poll_cq(cq, -1, wc));
	printf(" one %d", ibv_poll_cq(cq, 1, wc));
	printf(" many %d", ibv_poll_cq(cq, 200, wc));
	printf(" none %d\n", ibv_poll_cq(cq, 200, NULL));
}

/* What was received was unmapped before it is polled. */
static void memory_that_is_gone(void)
{
	char *other = map(PAGE);
	struct ibv_mr *other_mr = ibv_reg_mr(pd, other, PAGE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)other, 600, other_mr->lkey}, small = sge;

	small.length = 16;
	receive(qp, 1, sge);
	receive(qp, 2, small);
	send_it(qp, 3, piece(0, 600), IBV_SEND_SIGNALED);
	send_it(qp, 4, piece(0, 16), IBV_SEND_SIGNALED);
	munmap(other, PAGE);
	show_completions();
	printf("dereg %d\n", ibv_dereg_mr(other_mr));
}

/* The device has it pinned: that it cannot be read any more is no matter to a send. */
static void sends_of_memory_that_is_gone(void)
{
	struct ibv_qp_init_attr attr = {
	    .send_cq = cq, .recv_cq = cq, .cap = {DEPTH, DEPTH, 4, 4, 64}, .qp_type = IBV_QPT_RC};
	/* The stand-in sends nothing as long as there is no peer. */
	struct ibv_qp *q = check(ibv_create_qp(pd, &attr), "ibv_create_qp");
	char *other = map(4 * PAGE);
	struct ibv_mr *other_mr = ibv_reg_mr(pd, other, 4 * PAGE, 0);

	mprotect(other + PAGE, PAGE, PROT_NONE);
	munmap(other + 3 * PAGE, PAGE);
	for (size_t i = 0; i < 4; i++)
		if (send_it(q, i, (struct ibv_sge){(uintptr_t)other + i * PAGE, 64, other_mr->lkey},
			    IBV_SEND_SIGNALED))
			printf("post fails\n");
	show_completions();
}

/* Deregistered before it is polled, and looked at afterwards. */
static void deregistered_before_the_poll(void)
{
	char *other = map(PAGE);
	struct ibv_mr *other_mr = ibv_reg_mr(pd, other, PAGE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = {(uintptr_t)other, 600, other_mr->lkey};
	struct timeval now;

	gettimeofday(&now, NULL);
	memcpy(memory, &now, sizeof(now));
	receive(qp, 1, sge);
	send_it(qp, 3, piece(0, 600), IBV_SEND_SIGNALED);
	printf("dereg %d\n", ibv_dereg_mr(other_mr));
	show_completions();
	printf("arrived: %d\n", !memcmp(other, memory, 600));
}

/* Polls that find nothing, as the one before did, but for the queue, the place, the room, errno or what happens in between. */
static int poll_idly(struct ibv_cq *queue, int room, struct ibv_wc *wc, int error)
{
	int n;

	errno = error;
	n = ibv_poll_cq(queue, room, wc);
	return n * 1000 + errno;
}

static void caught(int number)
{
	struct ibv_wc wc;

	ibv_poll_cq(cq, 1, &wc);
}

static void polls_that_nearly_repeat(void)
{
	struct ibv_cq *other = check(ibv_create_cq(context, 4, NULL, NULL, 0), "ibv_create_cq");
	struct ibv_wc *shared = (struct ibv_wc *)memory, wc[4];
	int sum = 0, found = 0;

	for (int i = 0; i < 300; i++) {
		/* The same one from one place: mostly it repeats. */
		sum += poll_idly(i % 50 == 20 ? other : cq, i % 50 == 30 ? 2 : 1, i % 50 == 40 ? shared : wc,
				 i % 50 == 45 ? EAGAIN : 0);
		if (i % 70 == 69)
			memory[PAGE] = memory[2 * PAGE] + 1;
		if (i == 100) {
			receive(qp, 7, piece(0, 8));
			send_it(qp, 8, piece(64, 8), IBV_SEND_SIGNALED);
		}
		if (i == 120)
			signal(SIGUSR1, caught);
		if (i > 120 && i % 40 == 39)
			raise(SIGUSR1);
		found += sum / 1000;
		sum %= 1000;
	}
	printf("polls: %d found something, errno %d\n", found, sum);
	ibv_destroy_cq(other);
	show_completions();
}

/* Completions that are equal, polled one by one, behind polls that found nothing and before such. */
static void completions_that_repeat(void)
{
	struct ibv_wc wc[1];
	int found = 0;

	memset(wc, 0, sizeof(wc));
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 3; i++) {
			struct ibv_sge from = piece(0, 8);
			struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
						 .send_flags = IBV_SEND_SIGNALED,
						 .wr.rdma = {(uintptr_t)memory + 8 * PAGE, mr->rkey}}, *bad;

			ibv_post_send(qp, &wr, &bad);
		}
		for (int i = 0; i < 12; i++)
			found += poll_idly(cq, 1, wc, 0) / 1000 << (i % 4);
	}
	printf("completions: %d\n", found);
	show_completions();
}

/* With the real library free() works, and so does realloc(). */
static void device_lists_that_are_freed(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **longer;
	char *beside = malloc(100);

	printf("%s at %p\n", ibv_get_device_name(list[0]), (void *)list);
	free(list);
	list = ibv_get_device_list(NULL);
	longer = realloc(list, 5000 * sizeof(*list));
	printf("%s at %p beside %p\n", ibv_get_device_name(longer[0]), (void *)longer, (void *)beside);
	free(longer);
	printf("then %p\n", malloc(200));
	show_completions();
}

/* Registrations that the device refuses, of memory that peers may write already, and of other memory. */
static void refused_registrations(void)
{
	char *p = map(4 * PAGE);
	struct ibv_mr *m = ibv_reg_mr(pd, p + 100, PAGE, ALL);

	for (size_t i = 0; i < 3; i++) {
		p[i * PAGE] = (char)('a' + i);
		printf("%d %d", ibv_reg_mr(pd, p + i * PAGE, PAGE, IBV_ACCESS_REMOTE_WRITE) == NULL,
		       ibv_reg_mr(pd, p + i * PAGE + 7, 2 * PAGE, IBV_ACCESS_REMOTE_WRITE) == NULL);
		printf(" %c\n", p[i * PAGE]);
	}
	printf("dereg %d\n", ibv_dereg_mr(m));
}

/* A program tries what the device has: here it has no devices of other processes. */
static void refused_objects(void)
{
	errno = 0;
	printf("import %d", ibv_import_device(-1) == NULL);
	printf(" %d\n", errno);
}

const struct hostile_case requests_cases[] = {
    {"device-lists-that-are-freed", device_lists_that_are_freed},
    {"completions-that-repeat", completions_that_repeat},
    {"polls-that-nearly-repeat", polls_that_nearly_repeat},
    {"lists-that-are-too-long", lists_that_are_too_long},
    {"inline-data-that-is-too-long", inline_data_that_is_too_long},
    {"requests-in-constant-memory", requests_in_constant_memory},
    {"odd-polls", odd_polls},
    {"memory-that-is-gone", memory_that_is_gone},
    {"sends-of-memory-that-is-gone", sends_of_memory_that_is_gone},
    {"deregistered-before-the-poll", deregistered_before_the_poll},
    {"refused-registrations", refused_registrations},
    {"refused-objects", refused_objects},
    {0},
};
