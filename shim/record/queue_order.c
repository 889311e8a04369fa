/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/queue_order.h"

#include <string.h>

#include "logd/base/rawsys.h"
#include "shim/record/serial.h"
#include "shim/verbs/objects.h"

#define LOCKS    16 /* a power of two */
#define AWAIT_NS 20000

/* Two queues may have the same one. */
static struct {
	_Alignas(64) struct sr_lock lock;
} locks[LOCKS];

/* Has another thread begun a batch there?  Receives go beside batches. */
static bool is_taken(enum sr_call_number n, const uint64_t *a)
{
	switch (n) {
	case SR_CALL_post_send:
	case SR_CALL_bind_mw:
	case SR_CALL_wr_start:
		return sr_qp_is_taken((struct ibv_qp *)a[0]);
	case SR_CALL_poll_cq:
	case SR_CALL_start_poll:
		return sr_cq_is_taken((const struct ibv_cq *)a[0]);
	default:
		return false;
	}
}

static void wait_a_moment(void)
{
	static const struct timespec a_moment = {.tv_nsec = AWAIT_NS};

	sr_sys_nanosleep(&a_moment);
}

void sr_queue_await_batch(struct sr_thread *t, enum sr_call_number n, const uint64_t *a)
{
	uint64_t event;

	while (__builtin_expect(is_taken(n, a), 0) && !t->ended) {
		sr_serial_release(t, SR_TOKEN_AWAY);
		while (is_taken(n, a))
			wait_a_moment();
		event = sr_serial_regain(t);
		if (event)
			sr_serial_note(t, &(struct sr_token_payload){.what = SR_RUN_TOKEN_ACQUIRED, .event = event});
	}
}

struct sr_lock *sr_queue_lock(enum sr_call_number n, const uint64_t *a)
{
	struct sr_lock *l = &locks[(a[0] * 0x9e3779b97f4a7c15ull) >> 60 & (LOCKS - 1)].lock;

	sr_lock(l);
	while (__builtin_expect(is_taken(n, a), 0)) {
		sr_unlock(l);
		wait_a_moment();
		sr_lock(l);
	}
	return l;
}

void sr_queues_forget(void)
{
	memset(locks, 0, sizeof(locks));
}
