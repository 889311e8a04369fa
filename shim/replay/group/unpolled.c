/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/replay/group/unpolled.h"

#include "logd/base/lock.h"
#include "logd/base/page.h"
#include "shim/replay/group/requests.h"

/* So many messages of a queue pair may have come without having been polled. */
#define MESSAGES 64
/* So many pieces that were found are remembered until their completions come. */
#define FOUND 256

static struct found {
	const struct sr_group_channel *in; /* NULL: free */
	uint64_t number, page;
} found[FOUND];
static uint32_t found_next;

/* With sr_group_lock, as all that follows. */
bool sr_unpolled_was_found(const struct sr_group_channel *in, uint64_t number, uint64_t addr)
{
	for (uint32_t i = 0; i < FOUND; i++)
		if (found[i].in == in && found[i].number == number && found[i].page == sr_page_down(addr)) {
			found[i].in = NULL;
			return true;
		}
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
		found[found_next++ % FOUND] = (struct found){q->in, p->number, sr_page_down(p->at)};
	}
	return true;
}

/* Each message comes into the receive that is next then. */
static bool in_order(const struct sr_unpolled *u, const struct sr_request_qp *q, const struct sr_recv_request *r, uint64_t end)
{
	uint32_t n = 0;

	for (uint64_t number = q->received; r && number < end && n < SR_UNPOLLED_PIECES; number++, r = r->next)
		if (take(u, q, r, number, &u->pieces[n]) && fits(u, q, ++n))
			return true;
	return false;
}

/* With an SRQ, other connections have received into some of them. */
static bool in_any(const struct sr_unpolled *u, const struct sr_request_qp *q, const struct sr_recv_request *r, uint64_t end)
{
	for (; r; r = r->next)
		for (uint64_t number = q->received; number < end && take(u, q, r, number, &u->pieces[0]); number++)
			if (fits(u, q, 1))
				return true;
	return false;
}

struct walk {
	const struct sr_unpolled *u;
	bool found;
};

static void find_of(struct sr_request_qp *q, void *walk)
{
	struct walk *w = walk;
	struct sr_recv_queue *receives = q->in && q->qp->qp_type == IBV_QPT_RC ? sr_request_receives(q) : NULL;
	uint64_t end;

	if (!receives || w->found)
		return;
	end = atomic_load(&q->in->posted);
	if (end > q->received + MESSAGES)
		end = q->received + MESSAGES;
	w->found = in_order(w->u, q, receives->first, end) || (q->qp->srq && in_any(w->u, q, receives->first, end));
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
