/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exposed regions.c: the patterns of one-sided programming: peers write memory of rank 0,
 * which finds it by plain loads.
 *
 *   exposed regions PATTERN [ROUNDS [SEED]]
 *
 *   flag      a flag that is polled, data in front of it, on its page and on another
 *   ring      a ring whose head is written remotely and read with no call in between
 *   alarms    the same, while a timer's handler interrupts both
 *   mailbox   slots on one page: peers fill theirs, this CPU empties them
 *   requests  this CPU clears a whole page, and waits there for what peers then write
 *   vectors   the same, with stores of vectors
 *   seqlock   two pages under a sequence number that a peer writes
 *   ticket    a counter that peers add to, and this CPU reads
 *   steal     SReplay's listing 1: an idle rank asks for work, and polls for the answer
 *   order     this CPU stores, peers READ: never the later store without the earlier one
 *
 * A rank alone is its own peer in flag and seqlock: its device writes while it polls.
 *
 * Each rank prints what it saw as one number, which differs from run to run, and
 * whether all was as it must be.  Peers take pauses of chance.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/time.h>
#include <unistd.h>

#include "pgas/pgas.h"

#define WORDS      512 /* of a page */
#define RING       32
#define FEW_WORDS  12
#define STEAL_NONE UINT64_MAX

static uint64_t rounds, chance;
static bool right = true;
static uint64_t digest = 14695981039346656037u;

static void saw(uint64_t value)
{
	digest = (digest ^ value) * 1099511628211u;
}

static void expect(bool as_it_must_be)
{
	right = right && as_it_must_be;
}

static uint64_t random_below(uint64_t n)
{
	return pgas_random(&chance) % n;
}

static void pause_by_chance(void)
{
	for (volatile uint64_t n = random_below(4) ? random_below(200) : random_below(20000); n; n--)
		;
}

static uint64_t payload(uint64_t round, uint64_t word)
{
	uint64_t state = round << 32 | word;

	return pgas_random(&state);
}

/* -------------------------------------------------------------------- flag */

static void flag_reader(volatile uint64_t *near, volatile uint64_t *far, uint64_t *taken)
{
	for (uint64_t i = 1; i <= rounds; i++) {
		volatile uint64_t *data = i & 1 ? near : far;
		uint64_t words = 1 + i % FEW_WORDS;

		while (near[0] < i)
			;
		for (uint64_t w = 1; w <= words; w++)
			expect(data[w] == payload(i, w));
		saw(near[0]);
		pgas_put(1, taken, &i, sizeof(i));
	}
}

static void flag_writer(uint64_t *near, uint64_t *far, const uint64_t *taken, uint64_t *out)
{
	for (uint64_t i = 1; i <= rounds; i++) {
		uint64_t *data = i & 1 ? near : far;
		uint64_t words = 1 + i % FEW_WORDS;

		for (uint64_t w = 1; w <= words; w++)
			out[w] = payload(i, w);
		out[0] = i;
		pause_by_chance();
		pgas_start_put(0, data + 1, out + 1, words * sizeof(*out));
		pgas_start_put(0, near, out, sizeof(*out));
		pgas_quiet();
		pgas_wait_for(taken, i);
	}
}

static void flag_alone(uint64_t *page, uint64_t *far, uint64_t *out)
{
	volatile uint64_t *near = page;

	for (uint64_t i = 1; i <= rounds; i++) {
		uint64_t *to = i & 1 ? page : far, words = 1 + i % FEW_WORDS, found;
		volatile uint64_t *data = to;

		for (uint64_t w = 1; w <= words; w++)
			out[w] = payload(i, w);
		out[0] = i;
		pgas_start_put(0, to + 1, out + 1, words * sizeof(*out));
		pgas_start_put(0, page, out, sizeof(*out));
		saw(near[0]);
		while (near[0] < i)
			;
		/* A flag that is too large ends the loop as well (exposed regions.py flips bits). */
		found = near[0];
		saw(found);
		expect(found == i);
		for (uint64_t w = 1; w <= words; w++)
			expect(data[w] == payload(i, w));
		pgas_quiet();
	}
}

static void flag(void)
{
	uint64_t *page = pgas_shared(2 * 4096 + 4096), *taken = pgas_shared(4096);
	uint64_t *out = pgas_private(4096);

	pgas_barrier();
	if (pgas_ranks() == 1)
		flag_alone(page, page + WORDS + 64, out);
	else if (pgas_rank() == 0)
		flag_reader(page, page + WORDS + 64, taken);
	else if (pgas_rank() == 1)
		flag_writer(page, page + WORDS + 64, taken, out);
}

/* -------------------------------------------------------------------- ring */

struct ring {
	uint64_t head, pad[WORDS - 1]; /* written remotely */
	uint64_t tail, pad_too[WORDS - 1];
	uint64_t slots[RING];
};

static void ring_reader(volatile struct ring *r)
{
	uint64_t tail = 0, head;

	while (tail < rounds) {
		while ((head = r->head) == tail)
			;
		saw(head - tail); /* how many at once */
		for (; tail < head; tail++)
			expect(r->slots[tail % RING] == payload(tail, 0));
		r->tail = tail; /* no call: the writer READs it */
	}
}

static void ring_writer(struct ring *r, uint64_t *out, uint64_t *got)
{
	uint64_t tail = 0;

	for (uint64_t head = 0; head < rounds;) {
		uint64_t more = 1 + random_below(5);

		for (; more && head < rounds; more--, head++) {
			while (head - tail >= RING) {
				pgas_get(0, got, &r->tail, sizeof(*got));
				tail = *got;
			}
			out[head % RING] = payload(head, 0);
			pgas_start_put(0, &r->slots[head % RING], &out[head % RING], sizeof(*out));
		}
		pgas_quiet();
		out[RING] = head;
		pgas_put(0, &r->head, &out[RING], sizeof(*out));
		pause_by_chance();
	}
}

static void ring(void)
{
	struct ring *r = pgas_shared(sizeof(*r));
	uint64_t *out = pgas_private(4096), *got = pgas_private(64);

	pgas_barrier();
	if (pgas_rank() == 0)
		ring_reader(r);
	else if (pgas_rank() == 1)
		ring_writer(r, out, got);
}

#define ALARM_US 1000

static volatile uint64_t alarms_n;

static void count_alarm(int signo)
{
	alarms_n++;
}

static void alarms(void)
{
	const struct itimerval often = {{0, ALARM_US}, {0, ALARM_US}}, never = {{0, 0}, {0, 0}};

	signal(SIGALRM, count_alarm);
	setitimer(ITIMER_REAL, &often, NULL);
	ring();
	setitimer(ITIMER_REAL, &never, NULL);
	saw(alarms_n);
}

/* ----------------------------------------------------------------- mailbox */

static void mailbox_owner(volatile uint64_t *slots)
{
	int peers = pgas_ranks() - 1;

	for (uint64_t left = rounds * (uint64_t)peers; left;) {
		for (int i = 1; i <= peers; i++) {
			uint64_t mail = slots[i];

			if (!mail)
				continue;
			expect(mail >> 32 == (uint64_t)i);
			saw(mail);
			slots[i] = 0; /* while others write next to it */
			left--;
		}
	}
}

static void mailbox_peer(uint64_t *slots, uint64_t *out, uint64_t *got)
{
	uint64_t *mine = &slots[pgas_rank()];

	for (uint64_t i = 1; i <= rounds; i++) {
		*out = (uint64_t)pgas_rank() << 32 | i;
		pause_by_chance();
		pgas_put(0, mine, out, sizeof(*out));
		do
			pgas_get(0, got, mine, sizeof(*got));
		while (*got);
	}
}

static void mailbox(void)
{
	uint64_t *slots = pgas_shared(4096), *out = pgas_private(64), *got = pgas_private(64);

	pgas_barrier();
	if (pgas_rank() == 0)
		mailbox_owner(slots);
	else
		mailbox_peer(slots, out, got);
}

/* ---------------------------------------------------------------- requests */

/* Word 0 is the round.  All in one page. */
static void clear_words(volatile uint64_t *page)
{
	for (uint64_t w = 1; w < WORDS; w++)
		page[w] = 0;
}

static void clear_vectors(volatile uint64_t *page)
{
	typedef uint64_t vector __attribute__((vector_size(16), may_alias));
	volatile vector *v = (volatile vector *)page;

	page[1] = 0;
	for (uint64_t i = 1; i < WORDS / 2; i++)
		v[i] = (vector){0};
}

static void requests_server(volatile uint64_t *page, void (*clear)(volatile uint64_t *page))
{
	uint64_t peers = (uint64_t)pgas_ranks() - 1, seen;

	for (uint64_t i = 1; i <= rounds; i++) {
		clear(page);
		page[0] = i;
		for (uint64_t p = 1; p <= peers; p++) {
			while (!page[WORDS - 8 * p])
				;
			seen = page[WORDS - 8 * p];
			expect(seen >> 32 == i);
			saw(seen);
		}
	}
}

/* Some come at once, others when the server has waited for long. */
static void requests_client(uint64_t *page, uint64_t *out, uint64_t *got)
{
	for (uint64_t i = 1; i <= rounds; i++) {
		do
			pgas_get(0, got, page, sizeof(*got));
		while (*got != i);
		*out = i << 32 | random_below(1u << 31);
		if (i > 1 && random_below(4))
			pause_by_chance();
		else
			usleep(30000);
		pgas_put(0, &page[WORDS - 8 * pgas_rank()], out, sizeof(*out));
	}
}

static void serve_requests(void (*clear)(volatile uint64_t *page))
{
	uint64_t *page = pgas_shared(sizeof(uint64_t[2 * WORDS])), *out = pgas_private(64), *got = pgas_private(64);

	page = (uint64_t *)(((uintptr_t)page + 4095) & ~4095ul);
	pgas_barrier();
	if (pgas_rank() == 0)
		requests_server(page, clear);
	else
		requests_client(page, out, got);
}

static void requests(void)
{
	serve_requests(clear_words);
}

static void vectors(void)
{
	serve_requests(clear_vectors);
}

/* ----------------------------------------------------------------- seqlock */

struct seqlock {
	uint64_t sequence, a, pad[WORDS - 2], b;
};

/* Until it finds this sequence number. */
static void seqlock_read(volatile struct seqlock *l, uint64_t last)
{
	uint64_t before, after = 0, a, b, newest = 0;

	while (after < last) {
		before = l->sequence;
		a = l->a;
		b = l->b;
		after = l->sequence;
		if (before & 1 || before != after || after == newest)
			continue;
		expect(a == payload(after, 1) && b == payload(after, 2));
		expect(after > newest);
		saw(after);
		newest = after;
	}
}

static void seqlock_write(struct seqlock *l, uint64_t i, uint64_t *out)
{
	out[0] = i - 1;
	out[1] = payload(i, 1);
	out[2] = payload(i, 2);
	out[3] = i;
	pgas_start_put(0, &l->sequence, &out[0], sizeof(*out));
	pgas_start_put(0, &l->a, &out[1], sizeof(*out));
	pgas_start_put(0, &l->b, &out[2], sizeof(*out));
	pgas_start_put(0, &l->sequence, &out[3], sizeof(*out));
}

static void seqlock_writer(struct seqlock *l, uint64_t *out)
{
	for (uint64_t i = 2; i <= 2 * rounds; i += 2) {
		seqlock_write(l, i, out);
		pgas_quiet();
		pause_by_chance();
	}
}

static void seqlock_alone(struct seqlock *l, uint64_t *out)
{
	uint64_t i = 2, batch;

	while (i <= 2 * rounds) {
		for (batch = 0; batch < 8 && i <= 2 * rounds; batch++, i += 2)
			seqlock_write(l, i, out + 4 * batch);
		seqlock_read(l, i - 2);
		pgas_quiet();
	}
}

static void seqlock(void)
{
	struct seqlock *l = pgas_shared(sizeof(*l));
	uint64_t *out = pgas_private(4096);

	pgas_barrier();
	if (pgas_ranks() == 1)
		seqlock_alone(l, out);
	else if (pgas_rank() == 0)
		seqlock_read(l, 2 * rounds);
	else if (pgas_rank() == 1)
		seqlock_writer(l, out);
}

/* ------------------------------------------------------------------ ticket */

static void ticket(void)
{
	uint64_t *counter = pgas_shared(4096), last = 0, now;
	uint64_t total = rounds * (uint64_t)(pgas_ranks() - 1);

	pgas_barrier();
	if (pgas_rank() == 0) {
		while (last < total) {
			now = pgas_load(counter);
			expect(now >= last);
			if (now != last)
				saw(now);
			last = now;
		}
		return;
	}
	for (uint64_t i = 0; i < rounds; i++) {
		saw(pgas_fetch_add(0, counter, 1));
		pause_by_chance();
	}
}

/* ------------------------------------------------------------------- steal */

/* One for each rank; what others write has a page of its own. */
struct steal {
	uint64_t request; /* 1 + the rank that asks; by compare and swap */
	uint64_t pad[WORDS - 1];
	uint64_t amount, address; /* of what was stolen: in this order */
	uint64_t pad_too[WORDS - 2];
	uint64_t work[WORDS];
};

/* Rank 0 has work and gives some of it away when it is asked. */
static void steal_victim(struct steal *s, uint64_t *out)
{
	uint64_t left = rounds, given = 0;
	int thieves = pgas_ranks() - 1;

	while (left || thieves) {
		uint64_t thief = *(volatile uint64_t *)&s->request;

		if (left > 2 && !thief) {
			left--; /* does it itself */
			pause_by_chance();
			continue;
		}
		if (!thief)
			continue;
		saw(thief);
		saw(left);
		out[0] = left > 2 ? left / 2 : left;
		out[1] = given % WORDS;
		left -= out[0];
		thieves -= !out[0];
		given += out[0];
		s->request = 0;
		pgas_start_put((int)thief - 1, &s->amount, &out[0], sizeof(*out));
		pgas_start_put((int)thief - 1, &s->address, &out[1], sizeof(*out));
		pgas_quiet();
	}
}

static void steal_thief(struct steal *s, uint64_t *got)
{
	volatile uint64_t *address = &s->address;
	uint64_t me = (uint64_t)pgas_rank() + 1, amount;

	do {
		*address = STEAL_NONE;
		pause_by_chance();
		while (pgas_compare_swap(0, &s->request, 0, me))
			;
		while (*address == STEAL_NONE)
			;
		amount = *(volatile uint64_t *)&s->amount;
		expect(*address < WORDS && amount <= rounds);
		saw(amount);
		saw(*address);
		pgas_get(0, got, &s->work[*address], sizeof(*got));
		expect(*got == payload(*address, 3));
	} while (amount);
}

static void steal(void)
{
	struct steal *s = pgas_shared(sizeof(*s));
	uint64_t *out = pgas_private(64), *got = pgas_private(64);

	for (uint64_t i = 0; i < WORDS; i++)
		s->work[i] = payload(i, 3);
	pgas_barrier();
	if (pgas_rank() == 0)
		steal_victim(s, out);
	else
		steal_thief(s, got);
}

/* ------------------------------------------------------------------- order */

struct order {
	uint64_t first, pad[WORDS - 1], second, pad_too[WORDS - 1], done;
};

static void order_writer(volatile struct order *o)
{
	for (uint64_t i = 1; i <= rounds || !o->done; i++) {
		o->first = i;
		o->second = i;
		saw(o->done);
	}
}

static void order_reader(struct order *o, uint64_t *got)
{
	uint64_t one = 1;

	do {
		pgas_get(0, &got[1], &o->second, sizeof(*got));
		pgas_get(0, &got[0], &o->first, sizeof(*got));
		expect(got[0] >= got[1]);
		saw(got[1]);
	} while (got[1] < rounds);
	if (pgas_rank() == 1)
		pgas_put(0, &o->done, &one, sizeof(one));
}

static void order(void)
{
	struct order *o = pgas_shared(sizeof(*o));
	uint64_t *got = pgas_private(64);

	pgas_barrier();
	if (pgas_rank() == 0)
		order_writer(o);
	else
		order_reader(o, got);
}

/* -------------------------------------------------------------------- main */

static const struct {
	const char *name;
	void (*run)(void);
} patterns[] = {
    {"flag", flag},     {"ring", ring},   {"alarms", alarms}, {"mailbox", mailbox}, {"requests", requests}, {"vectors", vectors},
    {"seqlock", seqlock}, {"ticket", ticket}, {"steal", steal}, {"order", order},
};

int main(int argc, char **argv)
{
	static const char usage[] = "patterns PATTERN [ROUNDS [SEED]]";

	rounds = (uint64_t)pgas_argument(argc, argv, 2, 200, 1, usage);
	chance = (uint64_t)pgas_argument(argc, argv, 3, 0, 0, usage);
	if (!chance && getrandom(&chance, sizeof(chance), 0) < 0)
		return 2;
	for (size_t i = 0; argc > 1 && i < sizeof(patterns) / sizeof(*patterns); i++) {
		if (strcmp(argv[1], patterns[i].name))
			continue;
		pgas_start(64 << 10, 16 << 10);
		patterns[i].run();
		pgas_barrier();
		return pgas_end(
		    pgas_result(right, "patterns %s: %016llx", argv[1], (unsigned long long)digest));
	}
	fprintf(stderr, "%s\n", usage);
	return 2;
}
