/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * is.c: integer sort by buckets, as the NAS benchmark IS does it: keys go to the rank of their
 * bucket by RDMA WRITE, and are counted there.
 *
 *   is [KEYS [ROUNDS]]
 *
 * Each rank has KEYS keys, and changes some of them in every round. In each round the ranks tell
 * each other how many keys come, put them one behind the other into the receiver's memory, and sort
 * what they got. Sorted order within and between ranks, and the sum of all keys, are checked.
 */
#include <stdlib.h>

#include "pgas/pgas.h"

#define KEY_BITS 16
#define KEYS_MAX (1u << KEY_BITS)
#define CHANGED  16 /* keys, in each round */
#define MAX_RANK 64

static uint32_t *keys, *packed, *received;
static uint32_t n_keys;
/* By receiver: how many keys of mine; and at the receiver, by sender. */
static uint64_t outgoing[MAX_RANK];
static uint64_t *incoming;
static uint64_t n_received;

static int bucket_of(uint32_t key)
{
	return (int)((uint64_t)key * (uint64_t)pgas_ranks() >> KEY_BITS);
}

static void make_keys(void)
{
	uint64_t state = (uint64_t)pgas_rank() + 314159;

	for (uint32_t i = 0; i < n_keys; i++) {
		/* the mean of four: most keys are in the middle */
		uint64_t r = pgas_random(&state);

		keys[i] = (uint32_t)(((r & 0xffff) + (r >> 16 & 0xffff) + (r >> 32 & 0xffff) +
				      (r >> 48)) /
				     4);
	}
}

static void change_keys(int round)
{
	uint64_t state = (uint64_t)round * 64 + (uint64_t)pgas_rank();

	for (int i = 0; i < CHANGED; i++)
		keys[pgas_random(&state) % n_keys] = (uint32_t)(pgas_random(&state) % KEYS_MAX);
}

/* Keys of one receiver lie together, in the order of receivers. */
static void pack(void)
{
	uint64_t next[MAX_RANK] = {0};

	for (int i = 0; i < pgas_ranks(); i++)
		outgoing[i] = 0;
	for (uint32_t i = 0; i < n_keys; i++)
		outgoing[bucket_of(keys[i])]++;
	for (int i = 1; i < pgas_ranks(); i++)
		next[i] = next[i - 1] + outgoing[i - 1];
	for (uint32_t i = 0; i < n_keys; i++)
		packed[next[bucket_of(keys[i])]++] = keys[i];
}

/* Row r of the table tells how many keys rank r sends to each. */
static void tell_counts(void)
{
	uint64_t *row = incoming + (size_t)pgas_rank() * (size_t)pgas_ranks();
	size_t bytes = (size_t)pgas_ranks() * sizeof(*row);

	for (int i = 0; i < pgas_ranks(); i++)
		row[i] = outgoing[i];
	for (int i = 0; i < pgas_ranks(); i++)
		if (i != pgas_rank())
			pgas_start_put(i, row, row, bytes);
	pgas_barrier();
}

static uint64_t count(int from, int to)
{
	return incoming[(size_t)from * (size_t)pgas_ranks() + (size_t)to];
}

static void send_keys(void)
{
	uint64_t from = 0, to;

	for (int receiver = 0; receiver < pgas_ranks(); receiver++) {
		to = 0;
		for (int sender = 0; sender < pgas_rank(); sender++)
			to += count(sender, receiver);
		if (outgoing[receiver])
			pgas_start_put(receiver, received + to, packed + from,
				       outgoing[receiver] * sizeof(*packed));
		from += outgoing[receiver];
	}
	pgas_barrier();
	n_received = 0;
	for (int sender = 0; sender < pgas_ranks(); sender++)
		n_received += count(sender, pgas_rank());
}

static void sort_received(uint32_t *sorted)
{
	static uint32_t counts[KEYS_MAX];
	uint64_t n = 0;

	for (uint32_t k = 0; k < KEYS_MAX; k++)
		counts[k] = 0;
	for (uint64_t i = 0; i < n_received; i++)
		counts[received[i]]++;
	for (uint32_t k = 0; k < KEYS_MAX; k++)
		for (uint32_t i = 0; i < counts[k]; i++)
			sorted[n++] = k;
}

static uint64_t sum_of(const uint32_t *values, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++)
		sum += values[i];
	return sum;
}

static bool check(const uint32_t *sorted)
{
	uint64_t least[MAX_RANK], most[MAX_RANK];
	bool right = pgas_sum(sum_of(keys, n_keys)) == pgas_sum(sum_of(sorted, n_received));

	right = right && pgas_sum(n_received) == (uint64_t)n_keys * (uint64_t)pgas_ranks();
	for (uint64_t i = 1; i < n_received; i++)
		right = right && sorted[i - 1] <= sorted[i];
	pgas_gather(n_received ? sorted[0] : KEYS_MAX, least);
	pgas_gather(n_received ? sorted[n_received - 1] : 0, most);
	for (int i = 0; i < pgas_ranks(); i++)
		for (int j = i + 1; j < pgas_ranks(); j++)
			right = right && most[i] <= least[j];
	return pgas_sum(!right) == 0;
}

int main(int argc, char **argv)
{
	static const char usage[] = "is [KEYS [ROUNDS]]";
	int rounds;
	uint64_t everything;
	uint32_t *sorted;
	bool right = true;

	n_keys = (uint32_t)pgas_argument(argc, argv, 1, 4096, 1, usage);
	rounds = (int)pgas_argument(argc, argv, 2, 4, 1, usage);
	/* One rank may get all keys of all. */
	everything = n_keys * sizeof(*keys) * MAX_RANK;
	pgas_start(everything + MAX_RANK * MAX_RANK * sizeof(*incoming), n_keys * sizeof(*packed));
	incoming = pgas_shared((size_t)pgas_ranks() * (size_t)pgas_ranks() * sizeof(*incoming));
	received = pgas_shared(n_keys * sizeof(*keys) * (size_t)pgas_ranks());
	packed = pgas_private(n_keys * sizeof(*packed));
	keys = malloc(n_keys * sizeof(*keys));
	sorted = malloc(n_keys * sizeof(*keys) * (size_t)pgas_ranks());
	if (!keys || !sorted)
		pgas_fail("no memory for keys");
	make_keys();
	for (int round = 0; round < rounds; round++) {
		change_keys(round);
		pack();
		tell_counts();
		send_keys();
		sort_received(sorted);
		right = check(sorted) && right;
	}
	return pgas_end(
	    pgas_result(right, "is: %u keys of each rank sorted %d times", n_keys, rounds));
}
