/* SPDX-License-Identifier: BSD-2-Clause */
/* channel.c: the messages of each connection, in the order of their posts; see own.h. */
#include <string.h>

#include "logd/base/page.h"
#include "shim/replay/group/own.h"

#define PIECE (1u << 20) /* sr_channel_release frees at least this many bytes at a time */

static uint32_t hash(const struct sr_group_key *k)
{
	uint64_t h = (uint64_t)k->from_qp << 32 | k->to_qp;

	h = (h ^ (uint64_t)k->from << 24 ^ (uint64_t)k->to << 8 ^ k->generation) *
	    0x9e3779b97f4a7c15ull;
	return (uint32_t)(h >> 40) % SR_GROUP_CHANNELS;
}

struct sr_group_channel *sr_channel(const struct sr_group_key *key)
{
	for (uint32_t i = 0; i < SR_GROUP_CHANNELS; i++) {
		struct sr_group_channel *c =
		    &sr_group_memory->channel[(hash(key) + i) % SR_GROUP_CHANNELS];
		uint32_t state = 0;

		if (atomic_compare_exchange_strong(&c->state, &state, 1)) {
			c->key = *key;
			atomic_store(&c->state, 2);
			return c;
		}
		/* Another process is filling in this slot, perhaps with the same key. */
		while (atomic_load(&c->state) == 1)
			;
		if (sr_group_same_key(&c->key, key))
			return c;
	}
	return NULL;
}

struct sr_group_channel *sr_channel_if_any(const struct sr_group_key *key)
{
	for (uint32_t i = 0; i < SR_GROUP_CHANNELS; i++) {
		struct sr_group_channel *c = &sr_group_memory->channel[(hash(key) + i) % SR_GROUP_CHANNELS];
		uint32_t state = atomic_load(&c->state);

		/* One that is being entered has no message so far. */
		if (!state)
			return NULL;
		if (state == 2 && sr_group_same_key(&c->key, key))
			return c;
	}
	return NULL;
}

static uint32_t number_of(const struct sr_group_channel *c)
{
	return (uint32_t)(c - sr_group_memory->channel);
}

void sr_channel_send(struct sr_group_channel *c, const struct sr_group_origin *origin,
		     uint32_t opcode, const struct sr_transfer_by *by, const struct sr_piece *pieces,
		     uint32_t n, uint32_t written)
{
	uint64_t number = atomic_load_explicit(&c->posted, memory_order_relaxed);
	struct sr_group_message m = {
	    .origin = *origin,
	    .number = number,
	    .at = c->bytes,
	    .opcode = opcode,
	    .written = written,
	};

	struct sr_transfer_by transfer_by;

	if (by) {
		transfer_by = *by;
		transfer_by.arrives = number + 1;
		by = &transfer_by;
		m.by_device = true;
	}
	for (uint32_t i = 0; i < n; i++)
		m.length += pieces[i].length;
	sr_transfer(
	    by,
	    (struct sr_group_place){sr_group_payload_at(number_of(c)), c->bytes, SR_GROUP_PAYLOAD},
	    pieces, n);
	c->bytes += m.length;
	sr_group_write_own(sr_group_messages_at(number_of(c)) + number * sizeof(m), &m, sizeof(m));
	/* The caller calls sr_progress_enter next, which wakes the waiting processes. */
	atomic_store(&c->posted, number + 1);
}

void sr_channel_message(const struct sr_group_channel *c, uint64_t number,
			struct sr_group_message *m)
{
	sr_group_read_own(sr_group_messages_at(number_of(c)) + number * sizeof(*m), m, sizeof(*m));
}

void sr_channel_bytes(const struct sr_group_channel *c, const struct sr_group_message *m,
		      uint32_t from, void *p, uint32_t n)
{
	if (m->by_device)
		sr_transfer_await(c, m);
	sr_group_read_own(sr_group_payload_at(number_of(c)) + m->at + from, p, n);
}

void sr_channel_release(struct sr_group_channel *c, const struct sr_group_message *m)
{
	uint64_t end = m->at + m->length;

	if (end - c->freed < PIECE)
		return;
	sr_group_discard(sr_group_payload_at(number_of(c)) + c->freed,
			 sr_group_payload_at(number_of(c)) + end);
	c->freed = sr_page_down(end);
}
