/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * recording.h: the stages of a recorded call, for call.c and polls.c.
 *
 * They are inline and compiled several times, so that no call pays for what only others need.
 */
#ifndef SHIM_RECORD_RECORDING_H
#define SHIM_RECORD_RECORDING_H

#include "shim/core/hooks.h"
#include "shim/core/order.h"
#include "shim/core/thread.h"
#include "shim/files/fds.h"
#include "shim/record/emit.h"
#include "shim/record/serial.h"
#include "shim/record/streams.h"
#include "shim/verbs/regions.h"

#define INLINE static inline __attribute__((always_inline))

/* The callee need not set the upper bits of a narrow result. */
INLINE uint64_t widen(const struct sr_call_desc *d, uint64_t result)
{
	if (__builtin_expect(d->flags & SR_CALL_VOID, 0))
		return 0;
	if (__builtin_expect(d->ret_size == sizeof(int32_t), 1))
		return d->ret_signed ? (uint64_t)(int64_t)(int32_t)result : (uint32_t)result;
	if (d->ret_size == sizeof(uint16_t))
		return (uint16_t)result;
	return result;
}

/*
 * Writes the head into the room left for it, field by field, so that the compiler need not
 * move registers through memory.
 */
INLINE void put_head(struct sr_buf *b, const struct sr_call_head *head)
{
	struct sr_call_head *to = (void *)b->p;

	if (!to)
		return;
	to->site = head->site;
	to->result = head->result;
	to->error = head->error;
	to->in_size = head->in_size;
	to->orders = head->orders;
}

/* A call under way. */
struct recording {
	struct sr_thread *t;
	enum sr_call_number n;
	const struct sr_call_desc *d;
	uint64_t *a;
	enum sr_heap before;
	struct sr_call_head head;
	uint64_t order[2]; /* the numbers of its events */
	struct sr_pinned *pinned;
};

/* How the process's threads run when a call is made; a constant wherever it is compiled. */
enum threads {
	ALONE,    /* there is only one, and there never was another */
	PARALLEL, /* they run at the same time */
	SERIAL,   /* they run one at a time */
};

/* Encodes the arguments. */
INLINE void encode_arguments(struct recording *r, void *site, const enum threads how)
{
	struct sr_thread *t = r->t;
	struct sr_buf *b = &t->buf;
	const struct sr_call_codec *codec = &sr_call_codecs[r->n];

	r->head = (struct sr_call_head){.site = (uintptr_t)site};
	if (how == SERIAL)
		sr_serial_arrive(t, site);
	b->len = 0;
	t->received.gathered = 0;
	sr_buf_room(b, sizeof(r->head)); /* known at the end */
	if (codec->put_in)
		codec->put_in(b, r->a);
	r->head.in_size = (uint32_t)(b->len - sizeof(r->head));
}

/* Draws the event of the call's entry, if it has one. */
INLINE void draw_entry(struct recording *r, const enum threads how)
{
	struct sr_thread *t = r->t;

	if (how == ALONE)
		return;
	if (r->d->order & SR_ORDER_ENTRY)
		r->order[r->head.orders++] = sr_draw_event();
	t->signals.call_entry = r->head.orders ? r->order[0] : 0;
}

INLINE void begin(struct recording *r, void *site, const enum threads how)
{
	encode_arguments(r, site, how);
	if (__builtin_expect(sr_regions_on, 0))
		sr_regions_call_begins(r->d, r->a, r->pinned);
	draw_entry(r, how);
}

INLINE void put_order(struct recording *r)
{
	for (unsigned int i = 0; i < r->head.orders; i++)
		sr_put_u64(&r->t->buf, r->order[i]);
}

/* Draws the event at which the thread continues after the real call, if the call has one. */
INLINE void draw_return(struct recording *r, const enum threads how)
{
	uint64_t event = how == SERIAL && !r->t->ended ? sr_serial_regain(r->t) : 0;

	if (event)
		r->order[r->head.orders++] = event;
	else if (how != ALONE && r->d->order & SR_ORDER_RETURN &&
		 !sr_found_nothing(r->d, r->head.result, r->head.error))
		r->order[r->head.orders++] = sr_draw_event();
}

/* Writes the record. */
INLINE void emit(struct recording *r, const enum threads how)
{
	struct sr_thread *t = r->t;

	if (how != ALONE)
		put_order(r);
	put_head(&t->buf, &r->head);
	t->sn++;
	if (!t->silent)
		sr_emit_call(t, (uint16_t)(SR_REC_CALL + r->n));
}

/* The thread goes on in the program's code soon. */
INLINE void go_on(struct recording *r, const enum threads how)
{
	if (__builtin_expect(sr_regions_on, 0))
		sr_regions_call_ends(r->pinned);
	if (how == SERIAL)
		sr_serial_go_on(r->t);
}

/* Encodes the results, and writes the record. */
INLINE void end(struct recording *r, const enum threads how)
{
	const struct sr_call_desc *d = r->d;
	const struct sr_call_codec *codec = &sr_call_codecs[r->n];

	draw_return(r, how);
	if (codec->put_out)
		codec->put_out(&r->t->buf, r->a, r->head.result);
	if (d->flags & SR_CALL_NEWFD && (int)r->head.result >= 0)
		sr_fd_capture((int)r->head.result);
	emit(r, how);
}

#endif
