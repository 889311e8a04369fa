/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * dht.c: a distributed hash table, built and walked as Meraculous does with its graph of k-mers.
 *
 *   dht [BASES]
 *
 * A genome of BASES letters is made by chance and cut into overlapping words of 31. The ranks
 * insert the words of their parts (a key is claimed by compare-swap at its home, the letter that
 * follows is put behind it), then each walks from the first word of its part, letter by letter, by
 * looking words up; the letters must be the genome's.
 */
#include <stdio.h>
#include <stdlib.h>

#include "pgas/pgas.h"

#define WORD   31
#define MASK   ((1ull << 2 * WORD) - 1)
#define FILLED 4 /* slots for each word: one in so many is used */

/* Keys are words plus one, since a free slot has 0; values likewise are letters plus one. */
struct slot {
	uint64_t key, value;
};

static struct slot *table;
static uint64_t slots; /* of a rank */
static uint8_t *genome;

struct place {
	int rank;
	uint64_t slot;
};

static struct place home_of(uint64_t word)
{
	uint64_t state = word, hash = pgas_random(&state);

	return (struct place){(int)(hash % (uint64_t)pgas_ranks()), (hash >> 20) % slots};
}

static void insert(uint64_t word, uint64_t letter)
{
	struct place p = home_of(word);
	uint64_t value = letter + 1, there;

	for (uint64_t tries = 0; tries < slots; tries++) {
		there = pgas_compare_swap(p.rank, &table[p.slot].key, 0, word + 1);
		if (there == 0 || there == word + 1) {
			pgas_put(p.rank, &table[p.slot].value, &value, sizeof(value));
			return;
		}
		p.slot = (p.slot + 1) % slots;
	}
	pgas_fail("the hash table is full");
}

/* The letter behind the word, -1 if the word is not there. */
static int look_up(uint64_t word)
{
	struct place p = home_of(word);
	struct slot s;

	for (uint64_t tries = 0; tries < slots; tries++) {
		pgas_get(p.rank, &s, &table[p.slot], sizeof(s));
		if (s.key == word + 1)
			return (int)s.value - 1;
		if (s.key == 0)
			return -1;
		p.slot = (p.slot + 1) % slots;
	}
	return -1;
}

static void make_genome(uint64_t bases)
{
	uint64_t state = bases;

	genome = malloc(bases);
	if (!genome)
		pgas_fail("no memory for %llu bases", (unsigned long long)bases);
	for (uint64_t i = 0; i < bases; i++)
		genome[i] = pgas_random(&state) & 3;
}

static uint64_t word_at(uint64_t i)
{
	uint64_t word = 0;

	for (int j = 0; j < WORD; j++)
		word = word << 2 | genome[i + (uint64_t)j];
	return word;
}

/* How many letters were found before one was wrong. */
static uint64_t walk(uint64_t first, uint64_t end)
{
	uint64_t word = word_at(first), n = 0;
	int letter;

	for (uint64_t i = first; i < end; i++) {
		letter = look_up(word);
		if (letter != genome[i + WORD])
			break;
		word = (word << 2 | (uint64_t)letter) & MASK;
		n++;
	}
	return n;
}

int main(int argc, char **argv)
{
	uint64_t bases = (uint64_t)pgas_argument(argc, argv, 1, 1000, WORD + 64, "dht [BASES]");
	uint64_t words = bases - WORD, first, end, found;

	/* The table has to fit into what a rank shares before the number of ranks is known: one
	 * rank. */
	pgas_start(words * FILLED * sizeof(struct slot), 0);
	slots = words * FILLED / (uint64_t)pgas_ranks();
	table = pgas_shared(slots * sizeof(*table));
	make_genome(bases);
	first = words * (uint64_t)pgas_rank() / (uint64_t)pgas_ranks();
	end = words * (uint64_t)(pgas_rank() + 1) / (uint64_t)pgas_ranks();
	pgas_barrier();
	for (uint64_t i = first; i < end; i++)
		insert(word_at(i), genome[i + WORD]);
	pgas_barrier();
	found = pgas_sum(walk(first, end));
	return pgas_end(pgas_result(found == words, "dht: %llu of %llu letters",
				    (unsigned long long)found, (unsigned long long)words));
}
