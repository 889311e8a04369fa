/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_operations.c: calls.def describes each operation pointer of the verbs structs, so
 * that no call of a program is missed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include <infiniband/verbs.h>

enum kind { CONTEXT, VERBS, QP, CQ, DM };

struct slot {
	enum kind kind;
	size_t offset;
};

static const struct slot described[] = {
#define SR_OP(kind, type, field) {kind, offsetof(type, field)},
#include "ops.gen.h"
#undef SR_OP
};

#define COMPAT(field)                                                                              \
	{                                                                                          \
		CONTEXT, offsetof(struct ibv_context, ops._compat_##field)                         \
	}
#define NO_OP(field)                                                                               \
	{                                                                                          \
		VERBS, offsetof(struct verbs_context, field)                                       \
	}

/*
 * Pointers that no program calls: those of the old ABI, which are exported functions now,
 * and fillers.
 */
static const struct slot not_operations[] = {
    COMPAT(query_device),
    COMPAT(query_port),
    COMPAT(alloc_pd),
    COMPAT(dealloc_pd),
    COMPAT(reg_mr),
    COMPAT(rereg_mr),
    COMPAT(dereg_mr),
    COMPAT(create_cq),
    COMPAT(cq_event),
    COMPAT(resize_cq),
    COMPAT(destroy_cq),
    COMPAT(create_srq),
    COMPAT(modify_srq),
    COMPAT(query_srq),
    COMPAT(destroy_srq),
    COMPAT(create_qp),
    COMPAT(query_qp),
    COMPAT(modify_qp),
    COMPAT(destroy_qp),
    COMPAT(create_ah),
    COMPAT(destroy_ah),
    COMPAT(attach_mcast),
    COMPAT(detach_mcast),
    COMPAT(async_event),
    NO_OP(priv),
    NO_OP(ABI_placeholder1),
    NO_OP(ABI_placeholder2),
    NO_OP(_ABI_placeholder3),
    /* Newer, and refused where the program asks for them (calls.def, shim/verbs/queue_pairs.c): meson.build lists them. */
#define SR_NEWER(kind, type, field) {kind, offsetof(type, field)},
    SR_NEWER_OPERATIONS
};

static int times_in(const struct slot *slots, size_t n, enum kind kind, size_t offset)
{
	int times = 0;

	for (size_t i = 0; i < n; i++)
		times += slots[i].kind == kind && slots[i].offset == offset;
	return times;
}

/*
 * From the first operation's offset to the end of the last, each pointer is an operation or
 * listed above.
 */
static void assert_covered(enum kind kind, size_t first, size_t end)
{
	for (size_t offset = first; offset < end; offset += sizeof(void *)) {
		int times =
		    times_in(described, sizeof(described) / sizeof(described[0]), kind, offset) +
		    times_in(not_operations, sizeof(not_operations) / sizeof(not_operations[0]),
			     kind, offset);

		if (times != 1)
			fail_msg("kind %d, offset %zu: described %d times", kind, offset, times);
	}
}

static void all_of_a_context(void **state)
{
	assert_covered(CONTEXT, offsetof(struct ibv_context, ops),
		       offsetof(struct ibv_context, ops) + sizeof(struct ibv_context_ops));
}

static void all_of_an_extended_context(void **state)
{
	assert_covered(VERBS, 0, offsetof(struct verbs_context, sz));
}

static void all_builders_of_a_queue_pair(void **state)
{
	assert_covered(QP, offsetof(struct ibv_qp_ex, wr_atomic_cmp_swp), sizeof(struct ibv_qp_ex));
}

static void all_of_an_extended_completion_queue(void **state)
{
	assert_covered(CQ, offsetof(struct ibv_cq_ex, start_poll), sizeof(struct ibv_cq_ex));
}

static void all_of_device_memory(void **state)
{
	assert_covered(DM, offsetof(struct ibv_dm, memcpy_to_dm),
		       offsetof(struct ibv_dm, comp_mask));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(all_of_a_context),
	    cmocka_unit_test(all_of_an_extended_context),
	    cmocka_unit_test(all_builders_of_a_queue_pair),
	    cmocka_unit_test(all_of_an_extended_completion_queue),
	    cmocka_unit_test(all_of_device_memory),
	};

	return cmocka_run_group_tests_name("operations", tests, NULL, NULL);
}
