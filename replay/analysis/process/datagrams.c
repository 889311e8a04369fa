/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * datagrams.c: which datagram a completion brought; see own.h.
 *
 * A datagram names the number of the queue pair that it goes to, and its completion the one that it came from.  Numbers
 * are counted anew on each node, and datagrams may be lost: of those that were sent from that number to that number it is
 * the first with the same bytes.  Where the trace lacks the bytes of either side, it is the first of its length, so that
 * the order found may be weaker than the one that held, but is never false.  Where other datagrams have overwritten the
 * bytes, and one rank alone has such a queue pair, it is the next one of its length.
 */
#include "replay/analysis/process/own.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "logd/base/checksum.h"
#include "logd/base/datagram.h"
#include "replay/analysis/log/grow.h"

#define KEPT 4096 /* of what was not received, the latest: it may be lost */

/* The datagrams from one number to another one. */
struct datagram_flow {
	uint64_t sent;
	struct ring datagrams; /* struct datagram */
	size_t overtaken; /* so many of them, the first ones, were sent before one that was received */
};

static uint64_t key_of(uint32_t from_qp, uint32_t to_qp)
{
	return (uint64_t)from_qp << 32 | to_qp;
}

static struct datagram_flow *flow_of(const struct process *p, uint32_t from_qp, uint32_t to_qp)
{
	uint64_t at;

	return sr_keymap_get(&p->flow_of, key_of(from_qp, to_qp), &at) ? &p->flows[at] : NULL;
}

static struct datagram_flow *flow_of_or_new(struct process *p, uint32_t from_qp, uint32_t to_qp)
{
	struct datagram_flow *f = flow_of(p, from_qp, to_qp);

	if (f)
		return f;
	f = sr_grow((void **)&p->flows, p->flows_n, &p->flows_room, sizeof(*f));
	if (!f || sr_keymap_put(&p->flow_of, key_of(from_qp, to_qp), p->flows_n))
		return NULL;
	p->flows_n++;
	*f = (struct datagram_flow){0};
	return f;
}

void sr_log_free_datagrams(struct process *p)
{
	for (size_t i = 0; i < p->flows_n; i++)
		free(p->flows[i].datagrams.p);
	free(p->flows);
	sr_keymap_free(&p->flow_of);
}

static struct datagram *datagram_at(const struct datagram_flow *f, size_t i)
{
	return sr_log_at(&f->datagrams, i, sizeof(struct datagram));
}

int sr_log_datagram_sent(struct process *p, const struct qp *q, const struct details *d, const struct datagram *sent)
{
	struct datagram_flow *f = flow_of_or_new(p, q->qp_num, d->remote_qpn);
	struct datagram *to;

	if (!f)
		return -ENOMEM;
	if (f->datagrams.used == KEPT) {
		sr_log_pop(&f->datagrams);
		f->overtaken -= f->overtaken > 0;
	}
	to = sr_log_push(&f->datagrams, sizeof(*to));
	if (!to)
		return -ENOMEM;
	*to = *sent;
	for (size_t i = 0; i < d->pieces_n && d->pieces_n <= DATAGRAM_PIECES; i++)
		to->pieces[to->pieces_n++] = (uint32_t)d->pieces[i].length;
	f->sent++;
	return 0;
}

/* As the sender's shim has made it: of one piece after the other. */
static uint64_t checksum_of(const struct datagram *d, const uint8_t *bytes, uint32_t n)
{
	uint64_t sum = 0;
	uint32_t at = 0;

	for (uint32_t i = 0; i < d->pieces_n && d->pieces[i] <= n - at; at += d->pieces[i++])
		if (d->pieces[i])
			sum = sr_checksum(bytes + at, d->pieces[i], sum);
	return at < n ? sr_checksum(bytes + at, n - at, sum) : sum;
}

static bool fits(const struct datagram *d, const struct arriving *a)
{
	const struct message *m = &d->message;

	/* Traces of --order have neither its length nor its checksum, and of a list of inline data no trace has the lengths. */
	if (!m->length || m->length != a->length)
		return !m->length;
	return a->by_length || !m->checksum || !a->bytes || m->checksum == checksum_of(d, a->bytes, a->length);
}

/* Those in front of it may still come: datagrams can overtake each other. */
static void take(struct datagram_flow *f, size_t at, struct datagram *d)
{
	*d = *datagram_at(f, at);
	for (size_t i = at; i; i--)
		*datagram_at(f, i) = *datagram_at(f, i - 1);
	sr_log_pop(&f->datagrams);
	f->overtaken = at >= f->overtaken ? at : f->overtaken - 1;
}

static bool find(struct datagram_flow *f, const struct arriving *a, bool takes, struct datagram *d)
{
	for (size_t i = f && a->by_length ? f->overtaken : 0; f && i < f->datagrams.used; i++) {
		if (!fits(datagram_at(f, i), a))
			continue;
		if (takes)
			take(f, i, d);
		else
			*d = *datagram_at(f, i);
		return true;
	}
	return false;
}

/* One rank alone can have sent it. */
static bool is_of_one(const struct process *p, uint32_t from_qp)
{
	const struct sr_links *l = p->links;
	size_t found = 0;

	for (size_t i = 0; i < l->datagrams_n; i++)
		found += l->datagrams[i].qp_num == from_qp;
	return found == 1;
}

bool sr_log_datagram_received(struct process *p, const struct arriving *a, struct datagram *d)
{
	if (a->by_length && !is_of_one(p, a->from_qp))
		return false;
	return find(flow_of(p, a->from_qp, a->to_qp), a, true, d) ||
	       find(flow_of(p, a->from_qp, SR_DATAGRAM_MULTICAST), a, false, d);
}

static uint64_t sent_so_far(const struct process *p, uint32_t from_qp, uint32_t to_qp)
{
	const struct datagram_flow *one = flow_of(p, from_qp, to_qp), *all = flow_of(p, from_qp, SR_DATAGRAM_MULTICAST);

	return (one ? one->sent : 0) + (all ? all->sent : 0);
}

/* May another rank, which has not come so far, have sent it? */
static bool may_be_sent(const struct process *p, size_t rank, uint32_t from_qp)
{
	const struct sr_links *l = p->links;

	for (size_t i = 0; i < l->datagrams_n; i++)
		if (l->datagrams[i].qp_num == from_qp && l->datagrams[i].rank != rank && !p->ranks[l->datagrams[i].rank].over)
			return true;
	return false;
}

bool sr_log_datagram_await(struct process *p, size_t rank, const struct arriving *a)
{
	struct rank *r = &p->ranks[rank];

	if (!may_be_sent(p, rank, a->from_qp))
		return false;
	r->blocked = BY_DATAGRAM;
	r->awaited = (struct awaited_datagram){a->from_qp, a->to_qp, sent_so_far(p, a->from_qp, a->to_qp)};
	return true;
}

bool sr_log_datagram_is_awaited(const struct process *p, size_t rank)
{
	const struct awaited_datagram *w = &p->ranks[rank].awaited;

	return sent_so_far(p, w->from_qp, w->to_qp) == w->sent && may_be_sent(p, rank, w->from_qp);
}
