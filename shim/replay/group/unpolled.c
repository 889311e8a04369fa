/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/unpolled.h"

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "shim/memory/heap.h"
#include "shim/replay/group/requests.h"

/* So many messages of a queue pair may have come without having been polled: each into the next receive; into any. */
#define MESSAGES     4096
#define MESSAGES_ANY 64
/* Pieces that were found are remembered until their completions come, unless another one takes the place: a power of two. */
#define FOUND 8192

struct found {
	const struct sr_group_channel *in; /* NULL: free */
	uint64_t number, page;
};

/* Not in the library's image, which has to stay small. */
static struct found *all_found;

static struct found *place_of(const struct sr_group_channel *in, uint64_t number, uint64_t page)
{
	uint64_t key = (uintptr_t)in ^ number << 20 ^ page / PAGE;

	return &all_found[(key * 0x9e3779b97f4a7c15ull >> 40) % FOUND];
}

static void note_found(const struct sr_group_channel *in, uint64_t number, uint64_t page)
{
	if (!all_found)
		all_found = sr_alloc_zeroed(FOUND * sizeof(*all_found));
	if (all_found)
		*place_of(in, number, page) = (struct found){in, number, page};
}

/* With sr_group_lock, as all that follows. */
bool sr_unpolled_was_found(const struct sr_group_channel *in, uint64_t number, uint64_t addr)
{
	struct found *f = all_found ? place_of(in, number, sr_page_down(addr)) : NULL;

	if (!f || f->in != in || f->number != number || f->page != sr_page_down(addr))
		return false;
	f->in = NULL;
	return true;
}

/* Most receives are elsewhere. */
static bool is_near(const struct sr_unpolled *u, const struct sr_recv_request *receive)
{
	const struct sr_request *r = (const struct sr_request *)receive;

	for (uint32_t i = 0; i < r->num_sge; i++)
		if (r->sge[i].addr < u->addr + u->length && u->addr < r->sge[i].addr + r->sge[i].length)
			return true;
	return false;
}

/* The part of the message that would be on the value's page, if any of it is in the value. */
static bool piece_in(const struct sr_unpolled *u, const struct sr_request *r, uint32_t length, struct sr_unpolled_piece *p)
{
	uint64_t page = sr_page_down(u->addr);
	uint32_t from = 0;

	for (uint32_t i = 0; i < r->num_sge && from < length; from += r->sge[i++].length) {
		const struct ibv_sge *s = &r->sge[i];
		uint64_t end = s->addr + (s->length < length - from ? s->length : length - from);

		p->at = s->addr > page ? s->addr : page;
		p->from = from + (uint32_t)(p->at - s->addr);
		if (p->at >= u->addr + u->length || u->addr >= end)
			continue;
		p->n = (uint32_t)((end < page + PAGE ? end : page + PAGE) - p->at);
		return true;
	}
	return false;
}

/* What the message would bring if it came into this receive; false: nothing. */
static bool take(const struct sr_unpolled *u, const struct sr_request_qp *q, const struct sr_recv_request *r, uint64_t number,
		 struct sr_unpolled_piece *p)
{
	struct sr_group_message m;

	sr_channel_message(q->in, number, &m);
	if (!piece_in(u, (const struct sr_request *)r, m.length, p))
		return false;
	p->number = number;
	sr_channel_bytes(q->in, &m, p->from, p->bytes, p->n);
	return true;
}

static bool fits(const struct sr_unpolled *u, const struct sr_request_qp *q, uint32_t n)
{
	if (!u->fits(u->argument, n))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		struct sr_unpolled_piece *p = &u->pieces[i];
		struct sr_group_message m;

		sr_channel_message(q->in, p->number, &m);
		sr_history_add(sr_group_self, &m.origin, SR_GROUP_BYTES, p->at, NULL, &(struct sr_piece){p->bytes, p->n}, 1);
		note_found(q->in, p->number, sr_page_down(p->at));
	}
	return true;
}

/* Each message comes into the receive that is next then. */
static bool in_order(const struct sr_unpolled *u, const struct sr_request_qp *q, const struct sr_recv_request *r, uint64_t end)
{
	uint32_t n = 0;

	for (uint64_t number = q->received; r && number < end && n < SR_UNPOLLED_PIECES; number++, r = r->next)
		if (is_near(u, r) && take(u, q, r, number, &u->pieces[n]) && fits(u, q, ++n))
			return true;
	return false;
}

/* With an SRQ, other connections have received into some of them. */
static bool in_any(const struct sr_unpolled *u, const struct sr_request_qp *q, const struct sr_recv_request *r, uint64_t end)
{
	for (; r; r = r->next)
		for (uint64_t number = q->received; number < end && is_near(u, r) && take(u, q, r, number, &u->pieces[0]); number++)
			if (fits(u, q, 1))
				return true;
	return false;
}

/* As many messages as may be there unpolled, but at most so many: the end of their numbers. */
static uint64_t posted(const struct sr_request_qp *q, uint64_t most)
{
	uint64_t end = atomic_load(&q->in->posted);

	return end < q->received + most ? end : q->received + most;
}

struct walk {
	const struct sr_unpolled *u;
	bool found;
};

static void find_of(struct sr_request_qp *q, void *walk)
{
	struct walk *w = walk;
	struct sr_recv_queue *receives = q->in && q->qp->qp_type == IBV_QPT_RC ? sr_request_receives(q) : NULL;

	if (!receives || w->found)
		return;
	w->found = in_order(w->u, q, receives->first, posted(q, MESSAGES)) ||
		   (q->qp->srq && in_any(w->u, q, receives->first, posted(q, MESSAGES_ANY)));
}

bool sr_unpolled_find(const struct sr_unpolled *u)
{
	struct walk w = {.u = u};

	/* It is taken before that of the exposed regions elsewhere. */
	if (!sr_trylock(&sr_group_lock))
		return false;
	sr_requests_each(find_of, &w);
	sr_unlock(&sr_group_lock);
	return w.found;
}
