/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/record/emit.h"

#include <sys/uio.h>

#include "shim/record/known.h"
#include "shim/verbs/idle_poll.h"
#include "shim/verbs/picks.h"
#include "shim/verbs/regions.h"

bool sr_emit_in_pieces(struct sr_thread *t, uint16_t kind, const void *payload, size_t size)
{
	struct iovec iov = {.iov_base = (void *)payload, .iov_len = size};

	return !sr_ring_writev(&t->ring, kind, &iov, 1);
}

bool sr_emit(struct sr_thread *t, uint16_t kind, const void *payload, size_t size)
{
	return sr_emit_inline(t, kind, payload, size);
}

static void emit_counted(struct sr_thread *t, uint16_t kind, const void *payload, size_t size, uint64_t calls)
{
	if (calls && !sr_emit(t, kind, payload, size))
		sr_ring_lose_sns(&t->ring, calls);
}

void sr_emit_repeats(struct sr_thread *t)
{
	struct sr_cycle_payload cycle;
	struct sr_repeat_payload repeat;

	/* A handler's record came first and wrote them. */
	if (!t->repeats)
		return;
	repeat.count = sr_idle_polls_close(t, &cycle);
	emit_counted(t, SR_REC_CYCLE, &cycle, sizeof(cycle), cycle.calls);
	emit_counted(t, SR_REC_REPEAT, &repeat, sizeof(repeat), repeat.count);
}

/*
 * Lists the parts of the record in order: buf up to the first gathered piece, that piece,
 * and so on.
 */
static int list_pieces(const struct sr_buf *b, const struct sr_received *received,
		       struct iovec *iov)
{
	uint32_t from = 0;
	int n = 0;

	for (uint32_t i = 0; i < received->count; i++) {
		const struct sr_received_piece *a = &received->pieces[i];

		if (!a->at)
			continue;
		iov[n++] = (struct iovec){b->p + from, a->at - from};
		iov[n++] = (struct iovec){a->addr, a->length};
		from = a->at;
	}
	iov[n++] = (struct iovec){b->p + from, b->len - from};
	return n;
}

/* On a page of which a region has another part, each instruction of a plain copy would fault. */
static void copy_piece(unsigned char *room, const struct iovec *piece)
{
	if (sr_regions_is_near(piece->iov_base))
		sr_exposed_copy(piece->iov_base, room, piece->iov_len);
	else
		memcpy(room, piece->iov_base, piece->iov_len);
}

/* Copies received bytes only once, from where the device put them into the ring. */
void sr_emit_gathered(struct sr_thread *t, uint16_t kind, const struct sr_received *received)
{
	/*
	 * The next record cannot be a repeat of this one, so the last record's buffer is free
	 * for the list.
	 */
	struct sr_buf *list = &t->last;
	struct iovec *iov;
	uint64_t total = t->buf.len + received->gathered;
	unsigned char *room;
	int n;

	if (sr_known_emit(t, kind, received))
		return;
	list->len = 0;
	iov = (void *)sr_buf_room(list, (2ull * received->count + 1) * sizeof(*iov));
	list->len = 0;
	if (!iov) {
		sr_ring_lose(&t->ring, kind);
		return;
	}
	n = list_pieces(&t->buf, received, iov);
	if (total > sr_ring_max_payload(&t->ring)) {
		sr_ring_writev(&t->ring, kind, iov, n);
		return;
	}
	room = sr_ring_reserve(&t->ring, kind, (uint32_t)total);
	if (!room)
		return;
	for (int i = 0; i < n; i++) {
		copy_piece(room, &iov[i]);
		room += iov[i].iov_len;
	}
	sr_ring_commit(&t->ring, (uint32_t)total);
}

void sr_emit_check(struct sr_thread *t)
{
	const struct sr_check_payload check = {.sent = sr_sum_shown(t->sums.sent), .received = sr_sum_shown(t->sums.received)};

	if (sr_picks_on)
		sr_picks_flush();
	if (!t->sums.events)
		return;
	sr_flush_repeats(t);
	sr_emit(t, SR_REC_CHECK, &check, sizeof(check));
	t->sums.events = 0;
	/* A repeat refers to a call. */
	t->last.len = 0;
}

void sr_emit_passed(struct sr_thread *t)
{
	const uint32_t points = t->passed;

	t->passed = 0;
	if (points && t->passed_behind == t->sn)
		sr_emit(t, SR_REC_PASSED, &points, sizeof(points));
}

void sr_emit_stamp(struct sr_thread *t)
{
	union sr_stamp p;
	uint32_t size = sr_stamp(t, &p);

	if (__builtin_expect(size == sizeof(p.delta), 1))
		sr_emit_inline(t, SR_REC_STAMP, &p, sizeof(p.delta));
	else if (size == sizeof(p.time))
		sr_emit_inline(t, SR_REC_STAMP, &p, sizeof(p.time));
	else if (size)
		sr_emit_inline(t, SR_REC_STAMP, &p, sizeof(p.sync));
}
