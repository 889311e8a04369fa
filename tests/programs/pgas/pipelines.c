/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pipelines.c: three ranks in a row that hand on blocks, in places that are used again, each with another kind of flag:
 * no lock and no barrier keeps their accesses apart, so that tools that look for locks report each of them.
 *
 *   pipelines KIND
 *   pipelines             lists the kinds
 *
 * Rank 0 makes blocks, rank 1 adds one to each word and hands them on, rank 2 does so, too, and knows what must come out.  Who
 * gives a block says so ("full"), and who has taken it says that its place is free again ("room").
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pgas/internal.h"

#define RANKS  3
#define ROUNDS 20
#define WORDS  24 /* of a block; more than are sent inline */
#define SLOTS  4
#define PAGE   512 /* words */

struct shared {
	uint64_t blocks[SLOTS][WORDS];
	uint64_t beside; /* a flag in the page of the blocks */
	uint64_t pad[PAGE];
	uint64_t full, pad_too[PAGE - 1];
	uint64_t room, pad_again[PAGE - 1];
	uint64_t third[RANKS]; /* flags between the two other ranks */
	uint64_t out[WORDS], ready; /* what the next rank reads */
	uint64_t port;
	uint8_t byte;
};

/* What a kind of flag does in round 1, 2, ... */
struct kind {
	struct pgas_case name; /* `run` sets it up */
	void (*give)(uint64_t round);
	const uint64_t *(*take)(uint64_t round); /* until the block is there */
	void (*free)(uint64_t round);	   /* the block is done with */
};

static struct shared *shared;
static uint64_t *block; /* private: the one that is given next */
static int rank;

static int next(void)
{
	return rank + 1;
}

static int before(void)
{
	return rank - 1;
}

static void put_block(uint64_t slot)
{
	pgas_put(next(), shared->blocks[slot], block, sizeof(shared->blocks[slot]));
}

static void put_word(int to, uint64_t *word, uint64_t value)
{
	pgas_put(to, word, &value, sizeof(value));
}

/* Until a peer has put this there. */
static void wait_until(const uint64_t *word, uint64_t value)
{
	struct pgas_patience patience = {0};

	while (pgas_load(word) != value)
		pgas_relax(&patience);
}

static void nothing(void)
{
}

static void wait_for_room(uint64_t round)
{
	pgas_wait_for(&shared->room, round - 1);
}

static void say_room(uint64_t round)
{
	put_word(before(), &shared->room, round);
}

/* ------------------------------------------------------- a word that is set and cleared */

static void give_word(uint64_t round)
{
	if (round > 1) {
		wait_until(&shared->room, 1);
		pgas_store(&shared->room, 0);
	}
	put_block(0);
	put_word(next(), &shared->full, 1);
}

static const uint64_t *take_word(uint64_t round)
{
	wait_until(&shared->full, 1);
	pgas_store(&shared->full, 0);
	return shared->blocks[0];
}

static void free_word(uint64_t round)
{
	put_word(before(), &shared->room, 1);
}

/* Its value is turned with each round, and nobody clears it. */
static void give_sense(uint64_t round)
{
	wait_until(&shared->room, (round - 1) & 1);
	put_block(0);
	put_word(next(), &shared->full, round & 1);
}

static const uint64_t *take_sense(uint64_t round)
{
	wait_until(&shared->full, round & 1);
	return shared->blocks[0];
}

static void free_sense(uint64_t round)
{
	put_word(before(), &shared->room, round & 1);
}

static void give_byte(uint64_t round)
{
	const uint8_t number = (uint8_t)round;

	wait_for_room(round);
	put_block(0);
	pgas_put(next(), &shared->byte, &number, 1);
}

static const uint64_t *take_byte(uint64_t round)
{
	struct pgas_patience patience = {0};

	while (__atomic_load_n(&shared->byte, __ATOMIC_ACQUIRE) != round)
		pgas_relax(&patience);
	return shared->blocks[0];
}

/* ------------------------------------------------------------------- sequence numbers */

static void give_sequence(uint64_t round)
{
	wait_for_room(round);
	put_block(0);
	put_word(next(), &shared->full, round);
}

static const uint64_t *take_sequence(uint64_t round)
{
	pgas_wait_for(&shared->full, round);
	return shared->blocks[0];
}

/* Nobody waits for the block before its flag is sent: both go on one queue pair. */
static void give_unawaited(uint64_t round)
{
	wait_for_room(round);
	pgas_start_put(next(), shared->blocks[0], block, sizeof(shared->blocks[0]));
	put_word(next(), &shared->full, round);
	pgas_quiet();
}

static void give_beside(uint64_t round)
{
	wait_for_room(round);
	put_block(0);
	put_word(next(), &shared->beside, round);
}

static const uint64_t *take_beside(uint64_t round)
{
	pgas_wait_for(&shared->beside, round);
	return shared->blocks[0];
}

/* The last word of the block itself. */
static void give_tail(uint64_t round)
{
	wait_for_room(round);
	block[WORDS - 1] = round;
	put_block(0);
}

static const uint64_t *take_tail(uint64_t round)
{
	pgas_wait_for(&shared->blocks[0][WORDS - 1], round);
	return shared->blocks[0];
}

/* While one block is taken another one comes. */
static void give_double(uint64_t round)
{
	pgas_wait_for(&shared->room, round < 2 ? 0 : round - 2);
	put_block(round % 2);
	put_word(next(), &shared->full, round);
}

static const uint64_t *take_double(uint64_t round)
{
	pgas_wait_for(&shared->full, round);
	return shared->blocks[round % 2];
}

/* Head and tail of a ring; both are numbers of blocks. */
static void give_ring(uint64_t round)
{
	pgas_wait_for(&shared->room, round < SLOTS ? 0 : round - SLOTS);
	pgas_start_put(next(), shared->blocks[round % SLOTS], block, sizeof(shared->blocks[0]));
	put_word(next(), &shared->full, round);
	pgas_quiet();
}

static const uint64_t *take_ring(uint64_t round)
{
	pgas_wait_for(&shared->full, round);
	return shared->blocks[round % SLOTS];
}

/* --------------------------------------------------------------------------- atomics */

static void give_counter(uint64_t round)
{
	wait_for_room(round);
	put_block(0);
	pgas_fetch_add(next(), &shared->full, 1);
}

static void free_counter(uint64_t round)
{
	pgas_fetch_add(before(), &shared->room, 1);
}

/* A bit for each half of the block; who has taken it takes both away. */
static void give_bits(uint64_t round)
{
	const size_t half = sizeof(shared->blocks[0]) / 2;

	wait_for_room(round);
	pgas_put(next(), shared->blocks[0], block, half);
	pgas_fetch_add(next(), &shared->full, 1);
	pgas_put(next(), &shared->blocks[0][WORDS / 2], &block[WORDS / 2], half);
	pgas_fetch_add(next(), &shared->full, 2);
}

static const uint64_t *take_bits(uint64_t round)
{
	wait_until(&shared->full, 3);
	pgas_fetch_add(rank, &shared->full, (uint64_t)-3);
	return shared->blocks[0];
}

enum { EMPTY, FILLS, FULL, TAKES };

static void swap(int of, uint64_t from, uint64_t to)
{
	struct pgas_patience patience = {0};

	while (pgas_compare_swap(of, &shared->full, from, to) != from)
		pgas_relax(&patience);
}

static void give_swap(uint64_t round)
{
	swap(next(), EMPTY, FILLS);
	put_block(0);
	swap(next(), FILLS, FULL);
}

static const uint64_t *take_swap(uint64_t round)
{
	swap(rank, FULL, TAKES);
	return shared->blocks[0];
}

static void free_swap(uint64_t round)
{
	swap(rank, TAKES, EMPTY);
}

/* ------------------------------------------------------------------ flags elsewhere */

/*
 * The next rank reads the flag, and then the block, in the memory of this one, whose CPU stores both.  It has to wait: what nobody is
 * seen to wait for may be data.
 */
static void give_polled(uint64_t round)
{
	usleep(2000);
	wait_for_room(round);
	for (int w = 0; w < WORDS; w++)
		shared->out[w] = block[w];
	pgas_store(&shared->ready, round);
}

static void poll(int of, uint64_t *word, uint64_t value)
{
	struct pgas_patience patience = {0};
	uint64_t found = 0;

	for (;;) {
		pgas_get(of, &found, word, sizeof(found));
		if (found >= value)
			return;
		pgas_relax(&patience);
	}
}

static const uint64_t *take_polled(uint64_t round)
{
	static uint64_t *got;

	if (!got)
		got = pgas_private(sizeof(shared->out));
	poll(before(), &shared->ready, round);
	pgas_get(before(), got, shared->out, sizeof(shared->out));
	return got;
}

/* The rank that has nothing to do with the block. */
static int third(int giver)
{
	return (giver + 2) % RANKS;
}

static void give_third(uint64_t round)
{
	wait_for_room(round);
	put_block(0);
	put_word(third(rank), &shared->third[rank], round);
}

static const uint64_t *take_third(uint64_t round)
{
	poll(third(before()), &shared->third[before()], round);
	return shared->blocks[0];
}

/* ---------------------------------------------------------------- messages, sockets */

static struct ibv_qp *qps[RANKS];
static struct ibv_cq *cq;
static int fds[RANKS];

static void post_receive(int from)
{
	struct ibv_recv_wr *bad, wr = {.wr_id = (uint64_t)from};

	if (ibv_post_recv(qps[from], &wr, &bad))
		pgas_fail("cannot post a receive: %m");
}

static void connect_queue_pairs(void)
{
	struct ibv_qp_init_attr attr = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};

	attr.send_cq = attr.recv_cq = cq = ibv_create_cq(pgas.device, 64, NULL, NULL, 0);
	for (int i = 0; i < RANKS; i++) {
		qps[i] = ibv_create_qp(pgas.pd, &attr);
		if (!qps[i])
			pgas_fail("cannot create a queue pair: %m");
		pgas_prepare_queue_pair(qps[i]);
		post_receive(i);
		post_receive(i);
	}
	pgas_connect_more(qps);
}

static void send_message(int to)
{
	struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .wr_id = (uint64_t)to};

	if (ibv_post_send(qps[to], &wr, &bad))
		pgas_fail("cannot post a message: %m");
}

/* A message that comes early is counted. */
static void await_message(int from)
{
	static int came[RANKS];
	struct pgas_patience patience = {0};
	struct ibv_wc wc;

	while (!came[from]) {
		if (ibv_poll_cq(cq, 1, &wc) <= 0) {
			pgas_relax(&patience);
			continue;
		}
		if (wc.status != IBV_WC_SUCCESS)
			pgas_fail("a message failed: %s", ibv_wc_status_str(wc.status));
		if (wc.opcode != IBV_WC_RECV)
			continue;
		came[wc.wr_id]++;
		post_receive((int)wc.wr_id);
	}
	came[from]--;
}

static void give_message(uint64_t round)
{
	if (round > 1)
		await_message(next());
	put_block(0);
	send_message(next());
}

static const uint64_t *take_message(uint64_t round)
{
	await_message(before());
	return shared->blocks[0];
}

static void free_message(uint64_t round)
{
	send_message(before());
}

/* Each rank listens for the one before it. */
static void connect_sockets(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (listener < 0 || bind(listener, (struct sockaddr *)&at, size) || listen(listener, 1) || getsockname(listener, (struct sockaddr *)&at, &size))
		pgas_fail("cannot listen");
	if (rank)
		put_word(before(), &shared->port, at.sin_port);
	pgas_barrier();
	if (next() < RANKS) {
		at.sin_port = (in_port_t)pgas_load(&shared->port);
		fds[next()] = socket(AF_INET, SOCK_STREAM, 0);
		if (fds[next()] < 0 || connect(fds[next()], (struct sockaddr *)&at, sizeof(at)))
			pgas_fail("cannot connect");
	}
	if (rank)
		fds[before()] = accept(listener, NULL, NULL);
	pgas_barrier();
}

static void write_byte(int to)
{
	char byte = 1;

	if (write(fds[to], &byte, 1) != 1)
		pgas_fail("cannot write");
}

static void read_byte(int from)
{
	char byte;

	if (read(fds[from], &byte, 1) != 1)
		pgas_fail("cannot read");
}

static void give_socket(uint64_t round)
{
	if (round > 1)
		read_byte(next());
	put_block(0);
	write_byte(next());
}

static const uint64_t *take_socket(uint64_t round)
{
	read_byte(before());
	return shared->blocks[0];
}

static void free_socket(uint64_t round)
{
	write_byte(before());
}

/* ------------------------------------------------------------------------------- all */

static const struct kind kinds[] = {
    {{"word", nothing}, give_word, take_word, free_word},
    {{"sense", nothing}, give_sense, take_sense, free_sense},
    {{"byte", nothing}, give_byte, take_byte, say_room},
    {{"sequence", nothing}, give_sequence, take_sequence, say_room},
    {{"unawaited", nothing}, give_unawaited, take_sequence, say_room},
    {{"beside", nothing}, give_beside, take_beside, say_room},
    {{"tail", nothing}, give_tail, take_tail, say_room},
    {{"double", nothing}, give_double, take_double, say_room},
    {{"ring", nothing}, give_ring, take_ring, say_room},
    {{"counter", nothing}, give_counter, take_sequence, free_counter},
    {{"bits", nothing}, give_bits, take_bits, say_room},
    {{"swap", nothing}, give_swap, take_swap, free_swap},
    {{"polled", nothing}, give_polled, take_polled, say_room},
    {{"third", nothing}, give_third, take_third, say_room},
    {{"message", connect_queue_pairs}, give_message, take_message, free_message},
    {{"socket", connect_sockets}, give_socket, take_socket, free_socket},
};

#define KINDS (sizeof(kinds) / sizeof(*kinds))

static const struct kind *chosen(int argc, char **argv)
{
	struct pgas_case names[KINDS];
	const struct pgas_case *found;

	for (size_t i = 0; i < KINDS; i++)
		names[i] = kinds[i].name;
	found = pgas_case(argc, argv, names, KINDS);
	return &kinds[found - names];
}

/* The last word may be a flag. */
static bool is_right(const uint64_t *words, uint64_t round)
{
	for (uint64_t w = 0; w + 1 < WORDS; w++)
		if (words[w] != round * WORDS + w + RANKS - 1)
			return false;
	return true;
}

static bool go_round(const struct kind *k, uint64_t round)
{
	const uint64_t *from = rank ? k->take(round) : NULL;
	bool right;

	for (uint64_t w = 0; w < WORDS; w++)
		block[w] = from ? from[w] + 1 : round * WORDS + w;
	if (from)
		k->free(round);
	right = next() < RANKS || is_right(block, round);
	if (next() < RANKS)
		k->give(round);
	return right;
}

int main(int argc, char **argv)
{
	const struct kind *k = chosen(argc, argv);
	bool right = true;

	pgas_start(sizeof(*shared) + 65536, 65536);
	if (pgas_ranks() != RANKS)
		pgas_fail("it takes %d ranks", RANKS);
	rank = pgas_rank();
	shared = pgas_shared(sizeof(*shared));
	block = pgas_private(sizeof(shared->blocks[0]));
	pgas_barrier();
	k->name.run();
	for (uint64_t round = 1; round <= ROUNDS; round++)
		right = go_round(k, round) && right;
	pgas_barrier();
	return pgas_end(pgas_result(right, "%s", argv[1]));
}
