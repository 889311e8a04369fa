/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/commutes.h"

#include <infiniband/verbs.h>
#include <sreplay/order.h>

#include "shim/core/hooks.h"
#include "shim/core/order.h"
#include "shim/core/sums.h"
#include "shim/memory/heap.h"
#include "shim/record/emit.h"
#include "shim/verbs/clocks/clocks.h"
#include "shim/verbs/picks.h"

/* Not more is held back; it is lost if the process is killed. */
#define HELD_MOST (256u << 10)

/* A record that is held back; its payload follows. */
struct item {
	uint64_t queue; /* of its group */
	uint32_t size;
	uint16_t kind;
	bool written;
	uint32_t sums_from, sums_end; /* in bytes of held.sums */
};

static bool is_empty(const struct sr_commutes *c)
{
	return !c->items.len && !c->idle_polls;
}

static uint64_t queue_of(uint32_t qp_num, bool receives)
{
	return (uint64_t)qp_num << 1 | receives;
}

bool sr_commutes_may_take(const struct sr_thread *t, enum sr_call_number n, const uint64_t *a)
{
	const struct sr_commutes *c = &t->commutes;

	if (n == SR_CALL_poll_cq)
		return is_empty(c) || c->cq == a[0];
	return n == SR_CALL_post_recv && c->items.len && !c->idle_polls && c->queue == queue_of(((struct ibv_qp *)a[0])->qp_num, true);
}

uint64_t sr_invoke_commutative(const struct sr_call_desc *d, uint64_t *a)
{
	/* In the region they would be written in its midst. */
	if (sr_picks_on)
		sr_picks_flush();
	sr_self.commutes.on = a[0] == SREPLAY_COMMUTATIVE_BEGIN && !a[1] && sr_sums_on && !sr_threaded;
	return 0;
}

/* ------------------------------------------------------------------ holding */

static void hold(struct sr_thread *t, enum sr_call_number n)
{
	static const uint8_t zeros[SR_RECORD_ALIGN];
	struct sr_commutes *c = &t->commutes;
	const struct item item = {.queue = c->queue,
				  .size = (uint32_t)t->buf.len,
				  .kind = (uint16_t)(SR_REC_CALL + n),
				  .sums_from = c->sums_held,
				  .sums_end = (uint32_t)c->sums.len};

	sr_put_raw(&c->items, &item, sizeof(item));
	sr_put_raw(&c->items, t->buf.p, t->buf.len);
	sr_put_raw(&c->items, zeros, sr_record_padded(item.size) - item.size);
	c->sums_held = (uint32_t)c->sums.len;
	c->holds = true;
}

/* What has come with it is in the senders' replays, and only there. */
static bool commutes(const struct sr_thread *t, const struct ibv_wc *wc)
{
	const struct sr_received *r = &t->received;

	if (wc->status != IBV_WC_SUCCESS || r->gathered)
		return false;
	for (uint32_t i = 0; i < r->count; i++)
		if (!r->pieces[i].left_out || r->pieces[i].fetched)
			return false;
	return wc->opcode & IBV_WC_RECV || wc->opcode == IBV_WC_SEND || wc->opcode == IBV_WC_RDMA_WRITE;
}

static bool take_completion(struct sr_thread *t, const struct ibv_wc *wc)
{
	struct sr_commutes *c = &t->commutes;

	if (!commutes(t, wc))
		return false;
	c->idle_polls = 0;
	c->queue = queue_of(wc->qp_num, wc->opcode & IBV_WC_RECV);
	c->last = c->items.len;
	hold(t, SR_CALL_poll_cq);
	return true;
}

/* Those of another kind are not left out together with these. */
static bool take_idle_poll(struct sr_thread *t)
{
	struct sr_commutes *c = &t->commutes;

	if (c->idle_polls && (c->idle.len != t->buf.len || memcmp(c->idle.p, t->buf.p, t->buf.len)))
		return false;
	if (!c->idle_polls++) {
		c->idle.len = 0;
		sr_put_raw(&c->idle, t->buf.p, t->buf.len);
	}
	c->holds = true;
	return true;
}

static bool take(struct sr_thread *t, enum sr_call_number n, const uint64_t *a, uint64_t result)
{
	if (n == SR_CALL_poll_cq && result <= 1) {
		t->commutes.cq = a[0];
		return result ? take_completion(t, (void *)a[2]) : take_idle_poll(t);
	}
	if (n != SR_CALL_post_recv || result || !sr_commutes_may_take(t, n, a))
		return false;
	hold(t, n);
	return true;
}

bool sr_commutes_take(struct sr_thread *t, enum sr_call_number n, const uint64_t *a, uint64_t result)
{
	bool taken = take(t, n, a, result);

	if (!taken || t->commutes.items.len > HELD_MOST)
		sr_emit_held(t);
	return taken;
}

/* ------------------------------------------------------------------ writing */

static void add_sums(const struct sr_commutes *held, uint32_t from, uint32_t end)
{
	struct sr_held_sum s;

	for (; from < end; from += (uint32_t)sizeof(s)) {
		memcpy(&s, held->sums.p + from, sizeof(s));
		if (s.what == SR_HELD_SENT)
			sr_sums_sent(s.value);
		else if (s.what == SR_HELD_RECEIVED)
			sr_sums_received(s.value);
		else
			sr_sums_count((uint32_t)s.value);
	}
}

static void write_call(struct sr_thread *t, uint16_t kind, const void *payload, size_t size)
{
	t->buf.len = 0;
	sr_put_raw(&t->buf, payload, size);
	t->sn++;
	sr_emit_call(t, kind);
	if (t->sums.events >= SR_CHECK_EVENTS)
		sr_emit_check(t);
}

static void write_item(struct sr_thread *t, const struct sr_commutes *held, struct item *item)
{
	add_sums(held, item->sums_from, item->sums_end);
	write_call(t, item->kind, item + 1, item->size);
	item->written = true;
}

/* The groups up to there, one queue after the other; in each pass those of the queue of the first one that is left. */
static void write_groups(struct sr_thread *t, struct sr_commutes *held, size_t end)
{
	struct item *item;
	bool is_left = true;
	uint64_t queue = 0;

	while (is_left) {
		is_left = false;
		for (size_t at = 0; at < end; at += sizeof(*item) + sr_record_padded(item->size)) {
			item = (struct item *)(held->items.p + at);
			if (item->written)
				continue;
			if (!is_left)
				queue = item->queue;
			is_left = true;
			if (item->queue == queue)
				write_item(t, held, item);
		}
	}
}

static void write_all(struct sr_thread *t, struct sr_commutes *held, bool ends)
{
	struct sr_buf buf = t->buf;
	uint32_t gathered = t->received.gathered;

	/* A call may be under way. */
	t->buf = (struct sr_buf){0};
	t->received.gathered = 0;
	if (!ends)
		write_groups(t, held, held->last);
	write_groups(t, held, held->items.len);
	for (uint64_t i = 0; i < held->idle_polls; i++)
		write_call(t, SR_REC_CALL + SR_CALL_poll_cq, held->idle.p, held->idle.len);
	add_sums(held, held->sums_held, (uint32_t)held->sums.len);
	sr_free(t->buf.p);
	t->buf = buf;
	t->received.gathered = gathered;
}

static struct sr_commutes take_all(struct sr_thread *t)
{
	struct sr_commutes held = t->commutes;

	t->commutes = (struct sr_commutes){0};
	return held;
}

/* For what comes next, the same buffers. */
static void begin_again(struct sr_thread *t, const struct sr_commutes *held)
{
	t->commutes = (struct sr_commutes){.on = held->on, .items = held->items, .sums = held->sums, .idle = held->idle};
	t->commutes.items.len = t->commutes.sums.len = 0;
}

void sr_emit_held(struct sr_thread *t)
{
	struct sr_commutes held = take_all(t);

	write_all(t, &held, false);
	begin_again(t, &held);
}

void sr_commutes_pass(struct sr_thread *t, bool ends)
{
	struct sr_commutes held = take_all(t);

	sr_clocks_sample();
	write_all(t, &held, ends);
	begin_again(t, &held);
}

void sr_commutes_stop(struct sr_thread *t)
{
	sr_commutes_pass(t, false);
	t->commutes.on = false;
}

void sr_commutes_free(struct sr_thread *t)
{
	sr_free(t->commutes.items.p);
	sr_free(t->commutes.sums.p);
	sr_free(t->commutes.idle.p);
	t->commutes = (struct sr_commutes){0};
}
