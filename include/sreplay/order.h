/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * order.h: a program says where the order of its completions does not matter, so that `sreplay record --order` need not record it.
 *
 * A program that is not recorded does nothing here, and needs no library of sreplay: it loads one address and tests it.  Recorded
 * without --order, each of these is a call with a record of 16 bytes, and nothing else.  Both may be called by any thread, but
 * not by a signal handler; neither fails.  Compile position-independent code (-fPIE, -fPIC), which is what compilers of
 * distributions do by default.
 *
 *	sreplay_commutative_begin(0);
 *	while (received < expected)
 *		if (ibv_poll_cq(cq, 1, &wc) > 0)
 *			sum += take(&wc);	posts the receive again
 *	sreplay_commutative_end();
 */
#ifndef SREPLAY_ORDER_H
#define SREPLAY_ORDER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum sreplay_commutative {
	SREPLAY_COMMUTATIVE_BEGIN,
	SREPLAY_COMMUTATIVE_END,
};

/* What libsreplay_verbs.so exports; call the functions below instead.  what: enum sreplay_commutative. */
void sreplay_on_commutative(uint32_t what, uint64_t flags) __attribute__((weak));

/*
 * From here on, up to the end, this thread does the same whatever the order is in which completions come, whatever number of
 * polls between them is in vain, and with one completion at a time: its calls but for those that one completion brings about,
 * and all that it knows and sends afterwards.  A replay hands out the completions of one send or receive queue after those of
 * another one, each queue's own in their order.
 *
 * What commutes are successful completions that ibv_poll_cq finds in one completion queue: of messages of other recorded ranks over
 * RC, into memory that peers do not write; and of SEND and WRITE.  With each of them commutes ibv_post_recv to the queue
 * pair that it came from.  Any other call, and a new value in memory that peers write, is recorded in its place: what came
 * before it stays before it.  In a process with threads nothing commutes.
 *
 * flags: 0.  With others, which later versions may have, nothing commutes.  Regions do not nest: the first end ends them.
 */
static inline void sreplay_commutative_begin(uint64_t flags)
{
	if (sreplay_on_commutative)
		sreplay_on_commutative(SREPLAY_COMMUTATIVE_BEGIN, flags);
}

static inline void sreplay_commutative_end(void)
{
	if (sreplay_on_commutative)
		sreplay_on_commutative(SREPLAY_COMMUTATIVE_END, 0);
}

#ifdef __cplusplus
}
#endif

#endif
