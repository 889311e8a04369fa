/* SPDX-License-Identifier: BSD-2-Clause */
/* loads.c: a WRITE and the loads of the memory's owner. */
#include <unistd.h>

#include "races.h"

/* So that the load finds something new: it waits for the data's last word only. */
static void load_racing(void)
{
	struct pgas_patience patience = {0};

	if (is(0))
		put(OWNER);
	/* Not the last word, which may be a flag. */
	while (is(OWNER) && !pgas_load(&shared->data[WORDS / 2]))
		pgas_relax(&patience);
}

static void load_barrier(void)
{
	if (is(0))
		put(OWNER);
	pgas_barrier();
	if (is(OWNER) && !pgas_load(&shared->data[0]))
		pgas_fail("it is not there");
}

static void load_flag(void)
{
	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		pgas_start_put(OWNER, &shared->flag, &one, sizeof(one));
	} else if (is(OWNER)) {
		pgas_wait_for(&shared->flag, 1);
		if (!pgas_load(&shared->data[0]))
			pgas_fail("it is not there");
	}
	pgas_quiet();
}

/* One put, and the owner waits for this word of it. */
static void load_word(size_t waits_for)
{
	usleep(is(0) ? 20000 : 0);
	if (is(0)) {
		put(OWNER);
	} else if (is(OWNER)) {
		pgas_wait_for(&shared->data[waits_for], 1);
		other[0] = pgas_load(&shared->data[WORDS / 2]);
	}
}

/* Data comes in ascending order: who sees its end sees all of it. */
static void load_tail_flag(void)
{
	load_word(WORDS - 1);
}

static void load_head_flag(void)
{
	load_word(0);
}

/* The end of the message is there, but nobody waits for it, and what is loaded behind it counts on it (as in `steal racing`). */
static void load_tail_unawaited(void)
{
	if (is(0))
		put(OWNER);
	usleep(is(OWNER) ? 50000 : 0);
	if (is(OWNER) && pgas_load(&shared->data[WORDS - 1]))
		other[0] = pgas_load(&shared->data[WORDS / 2]);
}

/* The end of the message is there when the owner looks for it first: had it not been there, the owner would have waited. */
static void load_tail_there(void)
{
	if (is(0))
		put(OWNER);
	usleep(is(OWNER) ? 50000 : 0);
	if (is(OWNER)) {
		pgas_wait_for(&shared->data[WORDS - 1], 1);
		other[0] = pgas_load(&shared->data[WORDS / 2]);
	}
}

/* The same with a word by itself, on which nothing depends. */
static void load_word_there(void)
{
	if (is(0))
		raise_flag();
	usleep(is(1) ? 50000 : 0);
	if (is(1))
		pgas_wait_for(&shared->flag, 1);
}

/* The load comes first: it finds nothing new, and no recording has it. */
static void load_early_racing(void)
{
	volatile uint64_t *words = shared->data;

	if (is(OWNER) && words[5] + words[WORDS - 1])
		pgas_fail("it was there");
	usleep(20000);
	if (is(0))
		put(OWNER);
}

/* A word that nobody waits for, loaded in two places: that the first load orders the second one does not make it a flag. */
static void load_twice_racing(void)
{
	volatile uint64_t *word = &shared->flag;
	uint64_t sum;

	if (is(0))
		pgas_put(OWNER, &shared->flag, &one, sizeof(one));
	if (!is(OWNER))
		return;
	usleep(20000);
	sum = *word;
	sum += *word;
	if (sum > 2)
		pgas_fail("nobody has written that");
}

/* The same, with a message after it. */
static void load_early_flag(void)
{
	volatile uint64_t *words = shared->data;

	if (is(OWNER)) {
		if (words[5] + words[WORDS - 1])
			pgas_fail("it was there");
		pgas_put(0, &shared->flag, &one, sizeof(one));
	} else if (is(0)) {
		pgas_wait_for(&shared->flag, 1);
		put(OWNER);
	}
}

/* Many loads of one page, which is shown as a snapshot: a flag that came with it, and what it promises. */
static void load_snapshot_flag(void)
{
	volatile uint64_t *words = shared->data;
	uint64_t sum = 0;

	if (is(0)) {
		pgas_start_put(OWNER, shared->data, mine, BYTES);
		pgas_start_put(OWNER, &shared->flag, &one, sizeof(one));
	}
	pgas_quiet();
	pgas_barrier();
	for (int i = 0; is(OWNER) && pgas_load(&shared->flag) && i < WORDS; i++)
		sum += words[i];
	if (is(OWNER) && sum != WORDS)
		pgas_fail("it is not there");
}

/* Instructions that load and compute at once. */
static void add_up(void)
{
	const double *numbers = (const double *)shared->data;
	volatile double sum;
	double all = 0;

	for (int i = 0; i < WORDS; i++)
		all += numbers[i];
	sum = all;
	(void)sum;
}

static void load_sum_racing(void)
{
	if (is(0))
		pgas_put(1, &shared->data[WORDS / 2], mine, BYTES / 2);
	else if (is(1))
		add_up();
}

static void load_sum_barrier(void)
{
	if (is(0))
		pgas_put(1, &shared->data[WORDS / 2], mine, BYTES / 2);
	pgas_barrier();
	if (is(1))
		add_up();
}

static void load_counter(void)
{
	if (is(0)) {
		put(OWNER);
		pgas_fetch_add(OWNER, &shared->counter, 1);
	} else if (is(OWNER)) {
		wait_for_counter();
		if (!pgas_load(&shared->data[0]))
			pgas_fail("it is not there");
	}
}

/* The counter has its value when it is looked at: no load of it waits. */
static void load_late_counter(void)
{
	if (is(0)) {
		pgas_fetch_add(OWNER, &shared->counter, 1);
	} else if (is(OWNER)) {
		usleep(50000);
		while (!pgas_load(&shared->counter))
			;
	}
}

/* Rank 1 loads from its own memory. */
static void load_socket(void)
{
	int fd = meet();

	if (is(0)) {
		put(1);
		tell(fd);
	} else if (is(1)) {
		hear(fd);
		if (!pgas_load(&shared->data[0]))
			pgas_fail("it is not there");
	}
}

static void load_early_socket(void)
{
	int fd = meet();

	if (is(0)) {
		tell(fd);
		put(1);
	} else if (is(1)) {
		hear(fd);
		other[0] = pgas_load(&shared->data[0]);
	}
}

/* Waits for a word, and for nothing that depends on it; meanwhile it polls, and sleeps. */
static void load_awaited(void)
{
	struct ibv_wc wc;

	if (is(0)) {
		usleep(20000);
		raise_flag();
	} else if (is(1)) {
		while (!pgas_load(&shared->flag)) {
			if (ibv_poll_cq(pgas.cq, 1, &wc))
				pgas_fail("a completion of no request");
			usleep(1000);
		}
	}
}

/*
 * Rank 1 loads a message that has come into memory which peers may write, when a WRITE has come as well.  The message tells
 * of the WRITE only if it was sent behind it.
 */
static void load_message(bool is_behind)
{
	uint64_t *message = pgas_shared(BYTES);
	struct ibv_sge from = {.addr = (uintptr_t)mine, .length = BYTES, .lkey = pgas.private.mr->lkey};
	struct ibv_sge to = {.addr = (uintptr_t)message, .length = BYTES, .lkey = pgas.shared.mr->lkey};
	struct ibv_recv_wr *bad_receive, receive = {.wr_id = OWN_REQUEST, .sg_list = &to, .num_sge = 1};
	struct ibv_send_wr *bad_send, send = {
	    .wr_id = OWN_REQUEST, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	volatile uint64_t found;

	if (is(1)) {
		if (ibv_post_recv(pgas.peers[0].qp, &receive, &bad_receive))
			pgas_fail("cannot post a receive");
		pgas_start_put(0, &shared->flag, &one, sizeof(one));
		await_own();
		usleep(40000);
		found = pgas_load(&message[WORDS / 2]);
		found = pgas_load(&shared->data[WORDS / 2]);
		(void)found;
	} else if (is(0)) {
		pgas_wait_for(&shared->flag, 1);
		if (is_behind)
			pgas_start_put(1, shared->data, mine, BYTES);
		if (ibv_post_send(pgas.peers[1].qp, &send, &bad_send))
			pgas_fail("cannot send");
		await_own();
		usleep(20000);
		if (!is_behind)
			put(1);
	}
}

static void load_message_racing(void)
{
	load_message(false);
}

static void load_message_behind(void)
{
	load_message(true);
}

const struct pgas_case loads_cases[] = {
    {"load-sum-racing", load_sum_racing},
    {"load-sum-barrier", load_sum_barrier},
    {"load-racing", load_racing},
    {"load-barrier", load_barrier},
    {"load-flag", load_flag},
    {"load-tail-flag", load_tail_flag},
    {"load-head-flag", load_head_flag},
    {"load-tail-unawaited", load_tail_unawaited},
    {"load-tail-there", load_tail_there},
    {"load-word-there", load_word_there},
    {"load-early-racing", load_early_racing},
    {"load-twice-racing", load_twice_racing},
    {"load-early-flag", load_early_flag},
    {"load-snapshot-flag", load_snapshot_flag},
    {"load-counter", load_counter},
    {"load-late-counter", load_late_counter},
    {"load-socket", load_socket},
    {"load-early-socket", load_early_socket},
    {"load-awaited", load_awaited},
    {"load-message-racing", load_message_racing},
    {"load-message-behind", load_message_behind},
    {0},
};
