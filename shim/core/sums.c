/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/sums.h"

#include "shim/core/codec.h"
#include "shim/core/thread.h"

bool sr_sums_on;

/* Another order of the same checksums comes to another sum. */
static uint64_t with(uint64_t sum, uint64_t checksum)
{
	return ((sum << 23 | sum >> 41) + checksum) * 0x9e3779b97f4a7c15ull;
}

/* A REPEAT stands for records that are alike, but what this one lacks may be another value each time. */
static void begin(struct sr_thread *t)
{
	t->last.len = 0;
}

bool sr_sums_take(void)
{
	return sr_sums_on;
}

bool sr_sums_keeps(void)
{
	return sr_self.sums.kept;
}

void sr_sums_keep(const struct sr_buf *b, size_t at)
{
	const struct sr_sums_part part = {(uint32_t)at, (uint32_t)(b->len - at)};

	if (!sr_self.sums.kept)
		return;
	sr_put_raw(sr_self.sums.kept, &part, sizeof(part));
	sr_put_raw(sr_self.sums.kept, b->p + at, part.n);
}

/* Records that commute are held back, and what they lack with them. */
static bool is_held(struct sr_thread *t, enum sr_held_what what, uint64_t value)
{
	const struct sr_held_sum held = {value, what};

	if (__builtin_expect(!t->commutes.on, 1))
		return false;
	sr_put_raw(&t->commutes.sums, &held, sizeof(held));
	t->commutes.holds = true;
	return true;
}

void sr_sums_sent(uint64_t value)
{
	struct sr_thread *t = &sr_self;

	if (is_held(t, SR_HELD_SENT, value))
		return;
	begin(t);
	t->sums.sent = with(t->sums.sent, value);
}

void sr_sums_received(uint64_t checksum)
{
	struct sr_thread *t = &sr_self;

	if (is_held(t, SR_HELD_RECEIVED, checksum))
		return;
	begin(t);
	t->sums.received = with(t->sums.received, checksum);
	t->sums.events++;
}

void sr_sums_count(uint32_t events)
{
	struct sr_thread *t = &sr_self;

	if (sr_sums_take() && !is_held(t, SR_HELD_COUNT, events))
		t->sums.events += events;
}
