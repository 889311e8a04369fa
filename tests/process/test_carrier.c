/* SPDX-License-Identifier: BSD-2-Clause */
/* What the carrier makes again is where it belongs: in its place, and in the peer's image. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "replay/group/carrier.h"
#include "replay/group/memory.h"

#define LONG   (600u << 10) /* more than two pieces */
#define MEMORY 0x12345678f00ull
#define PLACE  (1ull << 40) /* where nothing else of the file is */

static struct sr_group *group;
static int fd;
static pid_t carrier;
static uint8_t bytes[LONG], got[LONG];

static int start(void **state)
{
	static const int32_t ranks[] = {3, 5};

	group = sr_group_make(ranks, 2, SR_GROUP_RXE, &fd);
	carrier = sr_carrier_start(group, fd);
	/* One channel each way between the two. */
	for (uint32_t i = 0; i < 2; i++)
		group->channel[i].key =
		    (struct sr_group_key){(int32_t)i, (int32_t)!i, 17 + i, 18 - i, 0, 0};
	for (uint32_t i = 0; i < LONG; i++)
		bytes[i] = (uint8_t)(i * 2654435761u >> 24);
	return carrier < 0;
}

static int stop(void **state)
{
	sr_carrier_end(carrier);
	return 0;
}

static uint32_t run(uint32_t member, struct sr_errand e)
{
	struct sr_errand *asked = &group->member[member].errand;

	e.channel = member;
	*asked = e;
	atomic_store(&asked->state, SR_ERRAND_ASKED);
	atomic_fetch_add(&group->carrier.word, 1);
	syscall(SYS_futex, &group->carrier.word, FUTEX_WAKE, 1, NULL, NULL, 0);
	while (atomic_load(&asked->state) == SR_ERRAND_ASKED)
		syscall(SYS_futex, &asked->state, FUTEX_WAIT, SR_ERRAND_ASKED, NULL, NULL, 0);
	return atomic_load(&asked->state);
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
	assert_int_equal(run(0, (struct sr_errand){.opcode = IBV_WR_SEND_WITH_IMM,
						   .imm_data = 7,
						   .length = LONG,
						   .to = to}),
			 SR_ERRAND_DONE);
	assert_there(PLACE + 100, bytes, LONG);
	/* Nothing at all is a message too. */
	assert_int_equal(run(1, (struct sr_errand){.opcode = IBV_WR_SEND, .to = to}),
			 SR_ERRAND_DONE);
	assert_int_equal(group->carrier.requests[SR_CARRIED_SEND], 2);
}

/* Its place goes around in its room; in the image it is at its address. */
static void test_write(void **state)
{
	const uint64_t base = PLACE + (1 << 21), room = 1 << 20, at = 5 * room - 1000;

	put(sr_group_source_at(1), bytes, LONG);
	assert_int_equal(run(1, (struct sr_errand){.opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
						   .length = LONG,
						   .remote_addr = MEMORY,
						   .to = {base, at, room}}),
			 SR_ERRAND_DONE);
	assert_there(base + room - 1000, bytes, 1000);
	assert_there(base, bytes + 1000, LONG - 1000);
	assert_there(sr_group_image_at(0) + MEMORY, bytes, LONG);
}

static void test_read_of_a_window(void **state)
{
	const struct sr_group_place to = {PLACE + (1 << 23), 0, 1 << 20};

	group->member[1].window[0] = (struct sr_group_window){MEMORY, LONG};
	atomic_store(&group->member[1].windows, 1);
	put(sr_group_image_at(1) + MEMORY, bytes, LONG);
	assert_int_equal(run(0, (struct sr_errand){.opcode = IBV_WR_RDMA_READ,
						   .remote_addr = MEMORY,
						   .length = LONG,
						   .to = to}),
			 SR_ERRAND_DONE);
	assert_there(to.base, bytes, LONG);
}

/* Of memory that is none, it is what the process has there. */
static void test_read_of_other_memory(void **state)
{
	const struct sr_group_place to = {PLACE + (1 << 24), 0, 1 << 20};

	prctl(PR_SET_PTRACER, carrier);
	atomic_store(&group->member[1].process, getpid());
	assert_int_equal(run(0, (struct sr_errand){.opcode = IBV_WR_RDMA_READ,
						   .remote_addr = (uintptr_t)bytes,
						   .length = LONG,
						   .to = to}),
			 SR_ERRAND_DONE);
	assert_there(to.base, bytes, LONG);
}

/* The trace says what is there then; where that is what the device did, and where it is not. */
static void test_atomic(void **state)
{
	const uint64_t at = sr_group_image_at(1) + MEMORY, before = 41, after = 42, recorded = 50;

	put(at, &before, 8);
	assert_int_equal(run(0, (struct sr_errand){.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
						   .remote_addr = MEMORY,
						   .length = 8,
						   .compare_add = 1,
						   .result = after}),
			 SR_ERRAND_DONE);
	assert_there(at, &after, 8);
	assert_int_equal(run(0, (struct sr_errand){.opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
						   .remote_addr = MEMORY,
						   .length = 8,
						   .compare_add = 49,
						   .swap = recorded,
						   .result = recorded}),
			 SR_ERRAND_DONE);
	assert_there(at, &recorded, 8);
}

/* More pieces of images than are registered at a time. */
static void test_many_places(void **state)
{
	for (uint64_t i = 0; i < 100; i++) {
		const uint64_t addr = MEMORY + (i << 18), value = i;
		const struct sr_group_place to = {PLACE + (1 << 25), 0, 8};

		group->member[0].window[0] = (struct sr_group_window){addr, 8};
		atomic_store(&group->member[0].windows, 1);
		put(sr_group_image_at(0) + addr, &value, 8);
		assert_int_equal(run(1, (struct sr_errand){.opcode = IBV_WR_RDMA_READ,
							   .remote_addr = addr,
							   .length = 8,
							   .to = to}),
				 SR_ERRAND_DONE);
		assert_there(to.base, &value, 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_send),
	    cmocka_unit_test(test_write),
	    cmocka_unit_test(test_read_of_a_window),
	    cmocka_unit_test(test_read_of_other_memory),
	    cmocka_unit_test(test_atomic),
	    cmocka_unit_test(test_many_places),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
