/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * test_orders.c: random programs over a simulated fabric. The test checks that every true
 * order between a write and a reader that saw it is found, and that the orders never form a
 * cycle. It also breaks the recorder at one point to check that this is noticed.
 *
 *     test_orders [RUNS [FIRST_SEED]]
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "fabric.h"
#include "nicclock/closure.h"
#include "nicclock/order_code.h"

static int test_number, failures;

static void result(bool ok, const char *name)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++test_number, name);
	failures += !ok;
}

/* ---------------------------------------------------------------- random programs */

static void random_operation(struct fabric *f, const struct fabric_shape *s)
{
	int processes = s->members + s->outsiders;
	int from = (int)fabric_random(f, (uint32_t)processes);
	int to = (from + 1 + (int)fabric_random(f, (uint32_t)processes - 1)) % processes;
	int lane = (int)fabric_random(f, (uint32_t)s->lanes);
	int x = (int)fabric_random(f, (uint32_t)s->words);

	switch (fabric_random(f, 8)) {
	case 0:
	case 1:
		fabric_write(f, from, to, lane, x);
		break;
	case 2:
	case 3:
		fabric_read(f, from, to, lane, x);
		break;
	case 4:
		fabric_atomic(f, from, to, lane, x);
		break;
	case 5:
		fabric_send(f, from, to, lane);
		break;
	case 6:
		fabric_store(f, from, x);
		break;
	case 7:
		fabric_load(f, from, x);
		break;
	}
}

static void random_program(const struct fabric_shape *shape, int operations,
			   struct fabric_counts *counts)
{
	struct fabric *f = fabric_create(shape);
	int processes = shape->members + shape->outsiders;

	for (int i = 0; i < operations; i++) {
		random_operation(f, shape);
		for (uint32_t n = fabric_random(f, 8); n; n--)
			fabric_step(f);
		for (uint32_t n = fabric_random(f, 3); n; n--)
			fabric_poll(f, (int)fabric_random(f, (uint32_t)processes));
	}
	fabric_finish(f, counts);
	fabric_free(f);
}

static struct fabric_shape random_shape(uint64_t seed, enum spoil spoil)
{
	static const int members[] = {2, 2, 3, 4, 5, 8, 16, 64};

	return (struct fabric_shape){
	    .members = members[seed % 8],
	    .outsiders = (int)(seed / 8 % 3),
	    .words = 1 + (int)(seed / 24 % 4) * 3,
	    .lanes = seed % 8 == 7 ? 1 : 1 + (int)(seed / 96 % 3),
	    .spoil = spoil,
	    .seed = seed,
	};
}

static void add(struct fabric_counts *sum, const struct fabric_counts *c)
{
	sum->operations += c->operations;
	sum->reads += c->reads;
	sum->missed += c->missed;
	sum->produced += c->produced;
	sum->producer_found += c->producer_found;
	sum->orders += c->orders;
	sum->false_orders += c->false_orders;
	sum->cyclic |= c->cyclic;
}

static struct fabric_counts random_programs(int runs, uint64_t first_seed, enum spoil spoil)
{
	struct fabric_counts sum = {0}, one;

	for (int i = 0; i < runs; i++) {
		struct fabric_shape shape = random_shape(first_seed + (uint64_t)i, spoil);

		if (spoil == SPOIL_ONE_CELL)
			shape.lanes = 3;
		random_program(&shape, 400, &one);
		if (spoil == SPOIL_NOTHING && (one.missed || one.cyclic))
			printf("# seed %llu: %llu of %llu reads lack an order, %s\n",
			       (unsigned long long)shape.seed, (unsigned long long)one.missed,
			       (unsigned long long)one.reads, one.cyclic ? "a cycle" : "no cycle");
		add(&sum, &one);
	}
	return sum;
}

static void test_random_programs(int runs, uint64_t first_seed)
{
	static const char *const spoilt[SPOIL_COUNT] = {
	    [SPOIL_CLOCK_BEHIND] = "a clock behind its data is noticed",
	    [SPOIL_ONE_CELL] = "a cell shared by queue pairs is noticed",
	    [SPOIL_NO_FENCE] = "reading clocks before the data is noticed",
	    [SPOIL_OWN_IGNORED] = "overlooking what an owner's CPU stored is noticed",
	    [SPOIL_LANDED_ONLY] = "taking posted for not yet landed is noticed",
	    [SPOIL_ONE_WORD] = "overwriting the only word of a cell is noticed",
	};
	struct fabric_counts c = random_programs(runs, first_seed, SPOIL_NOTHING);

	printf("# %d random programs: %llu operations, %llu reads, %llu values of another "
	       "member, %llu orders, %.1f %% of them false\n",
	       runs, (unsigned long long)c.operations, (unsigned long long)c.reads,
	       (unsigned long long)c.produced, (unsigned long long)c.orders,
	       100.0 * (double)c.false_orders / (double)c.orders);
	result(c.missed == 0 && c.produced > 0, "every true order is found");
	result(c.producer_found == c.produced, "every value's producer is ordered before it");
	result(!c.cyclic, "orders are never a cycle");
	for (enum spoil s = SPOIL_NOTHING + 1; s < SPOIL_COUNT; s++)
		result(random_programs(48, first_seed, s).missed > 0, spoilt[s]);
}

/* ----------------------------------------------------------------------- threads */

/*
 * Threads of one process sample the same cells without waiting for each other; a signal handler
 * samples as well, wherever it interrupts. A thread may act on what another thread has noted,
 * without a record in its own stream. Then its next event must come after an event that noted it.
 */
#define THREADS 4
#define VALUES  20000

static struct sr_clock_region *region;
static struct sr_clock member_clock;
static struct sr_clock_view *view;
static atomic_bool merging;
static _Atomic uint64_t data;
/* The first event at which this number or a higher one was noted. */
static _Atomic uint64_t noted_at[VALUES + 1];
/* The event with which a thread acted on this number. */
static uint64_t acted_at[THREADS][VALUES + 1];

static void *write_clock_and_data(void *unused)
{
	for (uint64_t n = 1; n <= VALUES; n++) {
		atomic_store(&region->cell[0][n % 2].word, sr_clock_cell_word(1, n, 0));
		atomic_store(&data, n);
	}
	return NULL;
}

static void note_at(uint64_t n, uint64_t event)
{
	uint64_t first = atomic_load(&noted_at[n]);

	while ((!first || first > event) &&
	       !atomic_compare_exchange_weak(&noted_at[n], &first, event))
		;
}

/* As sr_clocks_sample() does it. */
static void look_once(void)
{
	struct sr_order orders[SR_CLOCK_ORDERS];
	struct sr_clock_moment moment;
	bool taken;

	if (!sr_clock_is_news(&member_clock, view, &region->own, 1))
		return;
	taken = atomic_exchange(&merging, true);
	if (sr_clock_merge(&member_clock, view, &region->own, 1, orders, SR_CLOCK_ORDERS, &moment))
		note_at(orders[0].event, moment.event);
	if (!taken)
		atomic_store(&merging, false);
}

static void interrupt(int number)
{
	look_once();
}

static void *look(void *argument)
{
	uint64_t *acted = argument, seen = 0;

	while (seen < VALUES) {
		seen = atomic_load(&data);
		look_once();
		if (!acted[seen])
			acted[seen] = sr_clock_tick(&member_clock);
	}
	return NULL;
}

static bool acted_too_early(void)
{
	uint64_t first = UINT64_MAX;

	for (uint64_t n = VALUES; n; n--) {
		if (noted_at[n] && noted_at[n] < first)
			first = noted_at[n];
		for (int i = 0; i < THREADS; i++)
			if (acted_at[i][n] && acted_at[i][n] <= first)
				return true;
	}
	return false;
}

static void test_threads(void)
{
	struct sigaction on_alarm = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 50}, {0, 50}}, never = {0};
	pthread_t threads[THREADS], writer;

	region = calloc(1, sr_clock_region_bytes(1));
	view = calloc(1, sr_clock_view_bytes(1));
	view->cells = 1;
	sr_clock_region_use_cell(region, 0);
	sr_clock_init(&member_clock, region, 0, NULL);
	sigaction(SIGALRM, &on_alarm, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, look, acted_at[i]);
	pthread_create(&writer, NULL, write_clock_and_data, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_join(writer, NULL);
	setitimer(ITIMER_REAL, &never, NULL);
	result(!acted_too_early(),
	       "a thread acts after an event at which its data's order was noted");
	free(region);
	free(view);
}

/* -------------------------------------------------------------------------- words */

/* The first bytes of one and the last ones of another: what a device that copies bytes may bring. */
static uint64_t mix(uint64_t first, uint64_t last, int bytes)
{
	uint64_t low = bytes < 8 ? (1ull << bytes * 8) - 1 : ~0ull;

	return (first & low) | (last & ~low);
}

static bool is_one_of(uint64_t word, uint64_t a, uint64_t b)
{
	return !sr_clock_is_word(word, 0) || (sr_clock_event(word) == sr_clock_event(a) &&
					   sr_clock_member(word) == sr_clock_member(a)) ||
	       (sr_clock_event(word) == sr_clock_event(b) &&
		sr_clock_member(word) == sr_clock_member(b));
}

static void test_torn_words(void)
{
	uint64_t mixes = 0, taken = 0;
	bool whole = true;

	for (uint64_t event = 0; event < 200000; event++) {
		uint64_t at = event < 100000 ? event : (event << 20) - 50000;
		int member = (int)(event % SR_CLOCK_MEMBERS);
		uint64_t old = event % 2 ? sr_clock_cell_word(member, at, 0)
					 : sr_clock_own_word(member, at);
		uint64_t new = event % 2 ? sr_clock_cell_word(member, at + 1 + event % 300, 0)
					 : sr_clock_own_word(member, at + 1 + event % 300);

		whole &= sr_clock_is_word(old, 0) && sr_clock_event(old) == at &&
			 sr_clock_member(old) == member && sr_clock_is_own(old) == !(event % 2);
		for (int bytes = 1; bytes < 8; bytes++) {
			mixes += 2;
			taken += !is_one_of(mix(old, new, bytes), old, new);
			taken += !is_one_of(mix(new, old, bytes), old, new);
		}
	}
	printf("# %llu words of two halves, %llu of them taken for a third\n",
	       (unsigned long long)mixes, (unsigned long long)taken);
	result(whole && !sr_clock_is_word(0, 0), "words say what was put into them");
	result(taken * 10000 < mixes, "a word of which half was written is told from a whole one");
}

static struct sr_clock_region *theirs;

static uint32_t merge_two_cells(struct sr_order *orders)
{
	struct sr_clock_moment moment;

	return sr_clock_merge(&member_clock, view, &theirs->own, 2, orders, SR_CLOCK_ORDERS, &moment);
}

static void test_torn_words_are_no_news(void)
{
	uint64_t torn = mix(sr_clock_cell_word(1, 255, 0), sr_clock_cell_word(1, 257, 0), 1);
	struct sr_order orders[SR_CLOCK_ORDERS];

	region = calloc(1, sr_clock_region_bytes(0));
	theirs = calloc(1, sr_clock_region_bytes(2));
	view = calloc(1, sr_clock_view_bytes(2));
	view->cells = 2;
	sr_clock_region_use_cell(theirs, 1);
	sr_clock_init(&member_clock, region, 0, NULL);
	atomic_store(&theirs->cell[0][0].word, torn);
	atomic_store(&theirs->cell[1][0].word, torn);
	atomic_store(&theirs->cell[1][1].word, sr_clock_cell_word(1, 256, 0));
	result(merge_two_cells(orders) == 1 && orders[0].event == 256 && merge_two_cells(orders) == 0 &&
		   !sr_clock_is_short(&theirs->own, 2),
	       "of a cell that is being written the other word counts");
	atomic_store(&theirs->cell[1][0].word, sr_clock_cell_word(1, 257, 0));
	atomic_store(&theirs->cell[1][1].word, sr_clock_cell_word(1, 258, 0));
	result(merge_two_cells(orders) == 1 && orders[0].event == 258 && merge_two_cells(orders) == 0,
	       "of two new words the later one is an order");
	atomic_store(&theirs->cell[1][0].word, sr_clock_cell_word(2, 5, 0));
	result(merge_two_cells(orders) == 1 && orders[0].member == 2 && orders[0].event == 5 &&
		   merge_two_cells(orders) == 0,
	       "a cell may change hands");
	atomic_store(&theirs->cell[0][1].word, torn);
	result(!sr_clock_is_news(&member_clock, view, &theirs->own, 2) &&
		   sr_clock_is_short(&theirs->own, 2),
	       "a cell of which both words are torn is told of");
	atomic_store(&theirs->cell[0][1].word, 0);
	atomic_store(&theirs->before, sr_clock_own_word(3, 8));
	atomic_store(&theirs->own, mix(sr_clock_own_word(3, 255), sr_clock_own_word(3, 256), 1));
	result(merge_two_cells(orders) == 1 && orders[0].event == 8 &&
		   orders[0].via == SR_ORDER_OWN && !sr_clock_is_short(&theirs->own, 2),
	       "of a process's own number the one before it counts");
	free(region);
	free(theirs);
	free(view);
}

/* -------------------------------------------------------------------------- code */

static bool is_same(const struct sr_order *a, const struct sr_order *b)
{
	return a->member == b->member && a->via == b->via &&
	       (a->via == SR_ORDER_SHORT || a->event == b->event);
}

static void test_code(uint64_t seed)
{
	static const uint64_t big = (1ull << SR_CLOCK_EVENT_BITS) - 1;
	struct sr_order_stream out = {0}, in = {0};
	struct sr_order orders[SR_CLOCK_ORDERS], o;
	uint8_t bytes[SR_ORDER_MAX_BYTES(SR_CLOCK_ORDERS)];
	bool same = true, fits = true;
	uint64_t event = 0;

	srand((unsigned)seed);
	for (int round = 0; round < 20000; round++) {
		uint32_t n = (uint32_t)rand() % (SR_CLOCK_ORDERS + 1), size, at;

		for (uint32_t i = 0; i < n; i++)
			orders[i] = (struct sr_order){
			    .member = (uint8_t)(rand() % SR_CLOCK_MEMBERS),
			    .via = (uint8_t)(rand() % 3),
			    .event = rand() % 8   ? (uint64_t)rand()
				     : rand() % 2 ? big
						  : 0,
			};
		event += 1 + (rand() % 4 ? 0 : (uint64_t)rand());
		size = sr_order_encode(&out, event, orders, n, bytes);
			fits &= size <= SR_ORDER_MAX_BYTES(n);
		at = (uint32_t)sr_order_decode_event(&in, bytes, size);
		same &= in.event == event;
		for (uint32_t i = 0; i < n; i++) {
			at += (uint32_t)sr_order_decode(&in, bytes + at, size - at, &o);
			same &= is_same(&o, &orders[i]);
		}
		same &= at == size && sr_order_decode(&in, bytes + at, 0, &o) == 0;
	}
	result(same && fits, "encoded orders are read back");
}

static void test_common_case_is_small(void)
{
	struct sr_order_stream s = {.event = 1000000, .found = {[1] = 5000000}};
	struct sr_order o = {.member = 1, .event = 5000003, .via = SR_ORDER_CELL};
	uint8_t bytes[SR_ORDER_MAX_BYTES(1)];

	result(sr_order_encode(&s, 1000001, &o, 1, bytes) == 3, "a usual order takes three bytes");
}

static void test_any_bytes_are_read(uint64_t seed)
{
	srand((unsigned)seed);
	for (int round = 0; round < 200000; round++) {
		struct sr_order_stream s = {0};
		struct sr_order o;
		uint32_t size = (uint32_t)rand() % 24, at = 0;
		uint8_t *bytes = malloc(size + !size); /* its end is what a sanitizer sees */
		int n;

		for (uint32_t i = 0; i < size; i++)
			bytes[i] = (uint8_t)(rand() % 3 ? rand() : 0xff);
		n = sr_order_decode_event(&s, bytes, size);
		while (n > 0) {
			at += (uint32_t)n;
			n = sr_order_decode(&s, bytes + at, size - at, &o);
		}
		free(bytes);
	}
	result(true, "any bytes are read or refused");
}

static void test_contradicting_orders(void)
{
	struct sr_closure *c = sr_closure_create(2);
	struct sr_order first = {.member = 1, .event = 10}, second = {.member = 0, .event = 10};

	/* Each before the other. */
	sr_closure_add(c, 0, 5, &first);
	sr_closure_add(c, 1, 5, &second);
	result(sr_closure_compute(c) < 0, "orders that contradict each other are refused");
	sr_closure_free(c);
}

int main(int argc, char **argv)
{
	int runs = argc > 1 ? atoi(argv[1]) : 288;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;

	test_random_programs(runs, seed);
	test_threads();
	test_torn_words();
	test_torn_words_are_no_news();
	test_code(seed);
	test_common_case_is_small();
	test_any_bytes_are_read(seed);
	test_contradicting_orders();
	printf("1..%d\n", test_number);
	return failures != 0;
}
