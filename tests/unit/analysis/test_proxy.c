/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The proxy puts the bytes of repeated requests where they belong: in their place in the
 * file, and in the peer's image.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "replay/host/proxy/proxy.h"
#include "replay/host/shared/memory.h"

#define LONG   (600u << 10) /* more than two pieces */
#define MEMORY 0x12345678f00ull
#define PLACE  (1ull << 40) /* where nothing else of the file is */

static struct sr_group *group;
static int fd;
static pid_t proxy;
static uint8_t bytes[LONG], got[LONG];

static int start(void **state)
{
	static const int32_t ranks[] = {3, 5, 8};

	group = sr_group_make(ranks, 3, SR_GROUP_RXE, &fd);
	proxy = sr_proxy_start(group, fd);
	/* One channel each way between two, and one from the third. */
	for (uint32_t i = 0; i < 2; i++)
		group->channel[i].key =
		    (struct sr_group_key){(int32_t)i, (int32_t)!i, 17 + i, 18 - i, 0, 0};
	group->channel[2].key = (struct sr_group_key){2, 1, 19, 20, 0, 0};
	for (uint32_t i = 0; i < LONG; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 24);
	return proxy < 0 || !sr_proxy_await(group, proxy);
}

static int stop(void **state)
{
	sr_proxy_end(proxy);
	return 0;
}

static void ask(uint32_t member, struct sr_work_item e)
{
	struct sr_work_items *all = &group->member[member].work_items;

	e.channel = member;
	all->work_item[atomic_load(&all->asked) % SR_GROUP_WORK_ITEMS] = e;
	atomic_fetch_add(&all->asked, 1);
}

/* Are they done? */
static bool await(uint32_t member)
{
	const struct sr_work_items *all = &group->member[member].work_items;

	atomic_fetch_add(&group->proxy.word, 1);
	syscall(SYS_futex, &group->proxy.word, FUTEX_WAKE, 1, NULL, NULL, 0);
	while (atomic_load(&all->done) < atomic_load(&all->asked) && !atomic_load(&all->failed))
		usleep(1000);
	return !atomic_load(&all->failed);
}

/* One whose bytes lie in the file. */
static bool run(uint32_t member, struct sr_work_item e)
{
	e.source = SR_WORK_ITEM_FAR;
	e.stamp = atomic_fetch_add(&group->proxy.stamps, 1) + 1;
	ask(member, e);
	return await(member);
}

static void put(uint64_t at, const void *p, size_t n)
{
	assert_int_equal(pwrite(fd, p, n, (off_t)at), n);
}

static void assert_there(uint64_t at, const void *p, size_t n)
{
	assert_int_equal(pread(fd, got, n, (off_t)at), n);
	assert_memory_equal(got, p, n);
}

static void test_send(void **state)
{
	const struct sr_group_place to = {PLACE, 100, 1 << 20};

	put(sr_group_source_at(0), bytes, LONG);
	assert_true(
	    run(0, (struct sr_work_item){
		       .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 7, .length = LONG, .to = to}));
	assert_there(PLACE + 100, bytes, LONG);
	/* Nothing at all is a message too. */
	assert_true(run(1, (struct sr_work_item){.opcode = IBV_WR_SEND, .to = to}));
	assert_int_equal(group->proxy.requests[SR_OP_KIND_SEND], 2);
}

/* The place in the file wraps around; in the image the bytes are at their address. */
static void test_write(void **state)
{
	const uint64_t base = PLACE + (1 << 21), room = 1 << 20, at = 5 * room - 1000;

	put(sr_group_source_at(1), bytes, LONG);
	assert_true(run(1, (struct sr_work_item){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
					      .length = LONG,
					      .remote_addr = MEMORY,
					      .to = {base, at, room}}));
	assert_there(base + room - 1000, bytes, 1000);
	assert_there(base, bytes + 1000, LONG - 1000);
	assert_there(sr_group_image_at(0) + MEMORY, bytes, LONG);
}

static void test_read_of_an_exposed_region(void **state)
{
	const struct sr_group_place to = {PLACE + (1 << 23), 0, 1 << 20};

	group->member[1].exposed[0] = (struct sr_group_region){MEMORY, LONG};
	atomic_store(&group->member[1].regions, 1);
	put(sr_group_image_at(1) + MEMORY, bytes, LONG);
	assert_true(run(
	    0, (struct sr_work_item){
		   .opcode = IBV_WR_RDMA_READ, .remote_addr = MEMORY, .length = LONG, .to = to}));
	assert_there(to.base, bytes, LONG);
}

/* A read of other memory returns what the process has there. */
static void test_read_of_other_memory(void **state)
{
	const struct sr_group_place to = {PLACE + (1 << 24), 0, 1 << 20};

	prctl(PR_SET_PTRACER, proxy);
	atomic_store(&group->member[1].process, getpid());
	assert_true(run(0, (struct sr_work_item){.opcode = IBV_WR_RDMA_READ,
					      .remote_addr = (uintptr_t)bytes,
					      .length = LONG,
					      .to = to}));
	assert_there(to.base, bytes, LONG);
}

/* The trace says what the memory contains afterwards, whether or not the device did that. */
static void test_atomic(void **state)
{
	const uint64_t at = sr_group_image_at(1) + MEMORY, before = 41, after = 42, recorded = 50;

	put(at, &before, 8);
	assert_true(run(0, (struct sr_work_item){.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
					      .remote_addr = MEMORY,
					      .length = 8,
					      .compare_add = 1,
					      .result = after}));
	assert_there(at, &after, 8);
	assert_true(run(0, (struct sr_work_item){.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
					      .remote_addr = MEMORY,
					      .length = 8,
					      .compare_add = 49,
					      .swap = recorded,
					      .result = recorded}));
	assert_there(at, &recorded, 8);
}

/* More pieces of images than are registered at a time. */
static void test_many_places(void **state)
{
	for (uint64_t i = 0; i < 300; i++) {
		const uint64_t addr = MEMORY + (i << 18), value = i;
		const struct sr_group_place to = {PLACE + (1 << 25), 0, 8};

		group->member[0].exposed[0] = (struct sr_group_region){addr, 8};
		atomic_store(&group->member[0].regions, 1);
		put(sr_group_image_at(0) + addr, &value, 8);
		assert_true(run(1, (struct sr_work_item){.opcode = IBV_WR_RDMA_READ,
						      .remote_addr = addr,
						      .length = 8,
						      .to = to}));
		assert_there(to.base, &value, 8);
	}
}

/* Concurrent requests of several members are executed in the order of their stamps. */
static void test_order(void **state)
{
	const struct sr_group_place to = {PLACE + (1 << 26), 0, 1 << 20};
	const uint64_t at = sr_group_image_at(1) + MEMORY;

	for (uint32_t first = 0; first < 2; first++) {
		assert_int_equal(kill(proxy, SIGSTOP), 0);
		for (uint32_t i = 0; i < 8; i++)
			for (uint32_t from = 0; from < 2; from++) {
				struct sr_work_items *all = &group->member[2 * from].work_items;
				uint64_t value = 100 * first + 10 * i + from;

				memcpy(all->source + 8 * i, &value, 8);
				ask(2 * from, (struct sr_work_item){.opcode = IBV_WR_RDMA_WRITE,
								 .stamp = 100 * (first + 1) +
									  2 * i + (from != first),
								 .length = 8,
								 .source = 8 * i,
								 .remote_addr = MEMORY,
								 .to = to});
			}
		assert_int_equal(kill(proxy, SIGCONT), 0);
		assert_true(await(0) && await(2));
		assert_there(at, &(uint64_t){100 * first + 70 + !first}, 8);
	}
}

/* The receiver is notified when the data has arrived, and not before. */
static void test_arrival(void **state)
{
	const struct sr_group_place to = {PLACE + (1 << 27), 0, 1 << 20};

	memcpy(group->member[0].work_items.source, bytes, 1000);
	ask(0, (struct sr_work_item){
		   .opcode = IBV_WR_SEND, .stamp = 1000, .length = 1000, .arrives = 7, .to = to});
	assert_int_equal(atomic_load(&group->channel[1].arrived), 0);
	assert_true(await(0));
	assert_int_equal(atomic_load(&group->channel[0].arrived), 7);
	assert_there(to.base, bytes, 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_send),
	    cmocka_unit_test(test_write),
	    cmocka_unit_test(test_read_of_an_exposed_region),
	    cmocka_unit_test(test_read_of_other_memory),
	    cmocka_unit_test(test_atomic),
	    cmocka_unit_test(test_many_places),
	    cmocka_unit_test(test_order),
	    cmocka_unit_test(test_arrival),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
