/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/datagrams.h"

#include "logd/base/datagram.h"
#include "shim/memory/map.h"
#include "shim/replay/group/group.h"

#define ANYONE (-1) /* a channel to whoever has that number */
#define KEPT   4096 /* datagrams before the last one received: others may receive them, too, or they came later */

static struct sr_group_key key_of(uint32_t from, uint32_t from_qp, uint32_t to_qp)
{
	return (struct sr_group_key){.from = (int32_t)from, .to = ANYONE, .from_qp = from_qp, .to_qp = to_qp};
}

void sr_datagram_sent(const struct sr_request_qp *q, const struct sr_request *r, const struct sr_group_origin *origin,
		      const struct sr_piece *pieces, uint32_t n)
{
	const struct sr_group_key key = key_of(sr_group_self, q->qp->qp_num, r->remote_qpn);
	struct sr_group_channel *c = sr_channel(&key);

	if (c)
		sr_channel_send(c, origin, r->opcode, NULL, pieces, n, 0);
}

/* --------------------------------------------------------------- received */

/* A search on one channel. */
struct search {
	const struct sr_request_qp *q;
	const struct sr_request *r;
	uint32_t length;
	struct sr_group_channel *c;
	struct sr_group_message *m;
	uint64_t next; /* behind the last one that was received */
};

/*
 * How many messages of the channel this queue pair has received, or passed over, by channel and queue pair.  (All that are
 * in a multicast group receive from one channel.)
 */
static struct sr_map passed;

static uint64_t passed_key(const struct search *s)
{
	return (uint64_t)(s->c - sr_group_memory->channel) << 32 | s->q->qp->qp_num | 1ull << 63;
}

static bool is_at(const struct search *s, uint64_t number)
{
	sr_channel_message(s->c, number, s->m);
	return s->m->length == s->length && sr_request_holds(s->q, s->c, s->r, SR_DATAGRAM_HEADER, s->m);
}

/* The first one behind those that were received, or one that was overtaken. */
static bool find(void *argument)
{
	struct search *s = argument;
	uint64_t posted = atomic_load(&s->c->posted), before = s->next > KEPT ? s->next - KEPT : 0;

	for (uint64_t i = s->next; i < posted; i++)
		if (is_at(s, i))
			return true;
	for (uint64_t i = s->next; i-- > before;)
		if (is_at(s, i))
			return true;
	return false;
}

static void take(const struct search *s)
{
	struct sr_group_message old;
	void *before;

	if (s->m->number < s->next)
		return;
	sr_map_put(&passed, passed_key(s), (void *)(uintptr_t)(s->m->number + 1), &before);
	if (s->m->number % KEPT || s->m->number < KEPT)
		return;
	sr_channel_message(s->c, s->m->number - KEPT, &old);
	sr_channel_release(s->c, &old);
}

/* waits: also for what the member has not posted so far. */
static bool find_of_member(struct search *s, uint32_t member, const struct ibv_wc *wc, bool waits)
{
	const uint32_t to[] = {s->q->qp->qp_num, SR_DATAGRAM_MULTICAST};

	for (int i = 0; i < 2; i++) {
		const struct sr_group_key key = key_of(member, wc->src_qp, to[i]);

		s->c = sr_channel_if_any(&key);
		if (!s->c)
			continue;
		s->next = (uintptr_t)sr_map_get(&passed, passed_key(s));
		if (waits && member != sr_group_self)
			sr_progress_until(member, find, s);
		if (find(s))
			return true;
	}
	return false;
}

struct sr_group_channel *sr_datagram_received(const struct sr_request_qp *q, const struct sr_request *r, const struct ibv_wc *wc,
					      struct sr_group_message *m)
{
	struct search s = {.q = q, .r = r, .length = wc->byte_len - SR_DATAGRAM_HEADER, .m = m};

	if (wc->byte_len < SR_DATAGRAM_HEADER)
		return NULL;
	for (int waits = 0; waits < 2; waits++)
		for (uint32_t member = 0; member < sr_group_memory->members; member++)
			if (find_of_member(&s, member, wc, waits)) {
				take(&s);
				return s.c;
			}
	return NULL;
}

static bool find_in_order(void *argument)
{
	struct search *s = argument;
	uint64_t posted = atomic_load(&s->c->posted);

	for (uint64_t i = s->next; i < posted; i++) {
		sr_channel_message(s->c, i, s->m);
		if (s->m->length == s->length)
			return true;
	}
	return false;
}

struct sr_group_channel *sr_datagram_in_order(const struct sr_request_qp *q, const struct ibv_wc *wc, struct sr_group_message *m)
{
	struct search s = {.q = q, .length = wc->byte_len - SR_DATAGRAM_HEADER, .m = m};
	uint32_t from = 0;

	for (uint32_t member = 0; member < sr_group_memory->members; member++) {
		const struct sr_group_key key = key_of(member, wc->src_qp, q->qp->qp_num);
		struct sr_group_channel *c = sr_channel_if_any(&key);

		if (c && s.c)
			return NULL;
		if (c) {
			s.c = c;
			from = member;
		}
	}
	if (!s.c || wc->byte_len < SR_DATAGRAM_HEADER)
		return NULL;
	s.next = (uintptr_t)sr_map_get(&passed, passed_key(&s));
	if (from != sr_group_self)
		sr_progress_until(from, find_in_order, &s);
	if (!find_in_order(&s))
		return NULL;
	take(&s);
	return s.c;
}
