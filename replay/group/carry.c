/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * carry.c: bytes on their way from member to member; see own.h.
 *
 * Through the file they are put where they belong.  Over a device, the carrier
 * (carrier.h) is told what to do, and puts there what has arrived; who asks waits for
 * that, so that what a post does is done when it returns, over whatever way.  With
 * sr_group_lock held, but for sr_carry_own.
 */
#include <errno.h>
#include <linux/futex.h>
#include <string.h>

#include "logd/rawsys.h"
#include "replay/group/own.h"

#define SPINS   200
#define SECONDS 15 /* in which the carrier gets nowhere; its own limit for a request is 10 */

static const char *why_not;

const char *sr_carry_failed(void)
{
	return why_not;
}

/* ------------------------------------------------------- through the file */

static void put(struct sr_group_place *to, const struct sr_piece *piece)
{
	const char *p = piece->p;
	size_t n = piece->length;

	while (n) {
		uint64_t at;
		size_t part = sr_group_place_take(to, n, &at);

		sr_group_write_memory(at, p, part);
		p = p ? p + part : NULL;
		n -= part;
	}
}

/* ---------------------------------------------------------- over a device */

static struct sr_errand *errand_to(struct sr_group_channel *c, uint32_t opcode, uint32_t length)
{
	struct sr_errand *e = &sr_group_memory->member[sr_group_self].errand;

	e->channel = (uint32_t)(c - sr_group_memory->channel);
	e->opcode = opcode;
	e->length = length;
	e->to.room = 0;
	return e;
}

static void ask(struct sr_errand *e)
{
	struct sr_group_carrier *c = &sr_group_memory->carrier;

	/* It says that it sleeps, then looks for errands; we ask, then look if it sleeps. */
	atomic_store(&e->state, SR_ERRAND_ASKED);
	atomic_fetch_add(&c->word, 1);
	if (atomic_load(&c->sleeping))
		sr_sys_futex((uint32_t *)&c->word, FUTEX_WAKE, 1, NULL);
}

/* It may have those of others to do first, and a long one takes its time. */
static uint32_t answer_to(struct sr_errand *e)
{
	const struct timespec second = {.tv_sec = 1};
	const struct sr_group_carrier *c = &sr_group_memory->carrier;
	uint64_t steps = atomic_load(&c->steps);
	uint32_t state = SR_ERRAND_ASKED;

	for (int i = 0; i < SPINS && state == SR_ERRAND_ASKED; i++)
		state = atomic_load(&e->state);
	for (int vain = 0; state == SR_ERRAND_ASKED && vain < SECONDS;) {
		long woken = sr_sys_futex((uint32_t *)&e->state, FUTEX_WAIT, state, &second);

		state = atomic_load(&e->state);
		if (atomic_load(&c->state) != SR_CARRIER_READY)
			break;
		vain = atomic_load(&c->steps) == steps ? vain + (woken == -ETIMEDOUT) : 0;
		steps = atomic_load(&c->steps);
	}
	return state;
}

static void run(struct sr_errand *e)
{
	if (why_not)
		return;
	ask(e);
	switch (answer_to(e)) {
	case SR_ERRAND_DONE:
		break;
	case SR_ERRAND_FAILED:
		why_not = e->text;
		break;
	default:
		why_not = atomic_load(&sr_group_memory->carrier.state) == SR_CARRIER_READY
			      ? "it was not done within 15 s"
			      : "the process that has the device is gone";
	}
}

static const uint8_t zeros[4096];

/* Where the CPU has no memory of its own to send from (device memory), zeros go. */
static uint32_t lay_out(const struct sr_piece *pieces, uint32_t n)
{
	uint64_t at = sr_group_source_at(sr_group_self), begin = at;

	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t done = 0, part; !pieces[i].p && done < pieces[i].length;
		     done += part) {
			part = pieces[i].length - done;
			part = part < sizeof(zeros) ? part : (uint32_t)sizeof(zeros);
			sr_group_write(at + done, zeros, part);
		}
		sr_group_write_memory(at, pieces[i].p, pieces[i].length);
		at += pieces[i].length;
	}
	return (uint32_t)(at - begin);
}

void sr_carry(const struct sr_carriage *by, struct sr_group_place to, const struct sr_piece *pieces,
	      uint32_t n)
{
	struct sr_errand *e;

	if (!by) {
		for (uint32_t i = 0; i < n; i++)
			put(&to, &pieces[i]);
		return;
	}
	e = errand_to(by->channel, by->opcode, lay_out(pieces, n));
	e->remote_addr = by->remote_addr;
	e->imm_data = by->imm_data;
	e->to = to;
	run(e);
}

void sr_carry_read(struct sr_group_channel *c, uint64_t remote_addr, uint32_t length)
{
	struct sr_errand *e = errand_to(c, IBV_WR_RDMA_READ, length);

	e->remote_addr = remote_addr;
	run(e);
}

void sr_carry_atomic(struct sr_group_channel *c, const struct sr_carried_atomic *a)
{
	struct sr_errand *e = errand_to(c, a->opcode, sizeof(uint64_t));

	e->remote_addr = a->remote_addr;
	e->compare_add = a->compare_add;
	e->swap = a->swap;
	e->result = a->result;
	run(e);
}

void sr_carry_own(uint64_t addr, const void *bytes, uint32_t n)
{
	if (sr_group_over_device())
		sr_group_write_memory(sr_group_image_at(sr_group_self) + addr, bytes, n);
}
