/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * uts.c: unbalanced tree search (Olivier et al., LCPC 2006): counts the nodes of a tree that is
 * made while it is walked, and is too uneven to be shared out beforehand.
 *
 *   uts [TREE]           one of the trees below
 *   uts geometric BRANCHING DEPTH SEED
 *   uts binomial ROOT-CHILDREN CHILDREN PROBABILITY SEED
 *
 * A node is a SHA-1 digest: a child's is that of its parent's and of its number. The last 31 bits
 * are a number in [0, 1) that gives how many children there are: in geometric trees by a geometric
 * distribution of mean BRANCHING above DEPTH, in binomial trees CHILDREN with PROBABILITY, else
 * none. T1, T3, T1L and T3L are the published sample trees, of which the counts are published as
 * well; the smaller ones are theirs with less depth, or fewer children of the root. Other trees are
 * counted once more by each rank alone.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pgas/deque.h"
#include "pgas/pgas.h"
#include "pgas/sha1.h"

/* Above it a geometric draw is cut off; roots of binomial trees are not. */
#define MOST_CHILDREN 100

struct tree {
	const char *name;
	bool binomial;
	double branching, probability;
	int depth, children;
	uint32_t seed;
	uint64_t nodes, leaves; /* 0: not known beforehand */
};

static const struct tree trees[] = {
    {"T1", false, 4, 0, 10, 0, 19, 4130071, 3305118},
    {"T3", true, 2000, 0.124875, 0, 8, 42, 4112897, 3599034},
    {"T1L", false, 4, 0, 13, 0, 29, 102181082, 81746377},
    {"T3L", true, 2000, 0.200014, 0, 5, 7, 111345631, 89076904},
    {"T1-7", false, 4, 0, 7, 0, 19, 0, 0},
    {"T1-6", false, 4, 0, 6, 0, 19, 0, 0},
    {"T1-5", false, 4, 0, 5, 0, 19, 0, 0},
    {"T3-60", true, 60, 0.124875, 0, 8, 42, 0, 0},
};

struct node {
	uint8_t state[SHA1_BYTES];
	int32_t height;
};

static struct tree tree;
static uint64_t nodes, leaves, deepest;

static double number_of(const struct node *n)
{
	const uint8_t *s = n->state;
	uint32_t bits =
	    (uint32_t)s[16] << 24 | (uint32_t)s[17] << 16 | (uint32_t)s[18] << 8 | s[19];

	return (double)(bits & 0x7fffffff) / 2147483648.0;
}

static int geometric_children(const struct node *n)
{
	double children;

	if (n->height >= tree.depth)
		return 0;
	children = floor(log(1 - number_of(n)) / log(1 - 1 / (1 + tree.branching)));
	return children > MOST_CHILDREN ? MOST_CHILDREN : (int)children;
}

static int binomial_children(const struct node *n)
{
	if (n->height == 0)
		return (int)tree.branching;
	return number_of(n) < tree.probability ? tree.children : 0;
}

static void put_word(uint8_t *to, uint32_t word)
{
	for (int i = 0; i < 4; i++)
		to[i] = (uint8_t)(word >> (24 - 8 * i));
}

static struct node make_root(void)
{
	uint8_t bytes[20] = {0};
	struct node root = {.height = 0};

	put_word(bytes + 16, tree.seed);
	sha1(root.state, bytes, sizeof(bytes));
	return root;
}

static struct node make_child(const struct node *parent, uint32_t number)
{
	uint8_t bytes[SHA1_BYTES + 4];
	struct node child = {.height = parent->height + 1};

	memcpy(bytes, parent->state, SHA1_BYTES);
	put_word(bytes + SHA1_BYTES, number);
	sha1(child.state, bytes, sizeof(bytes));
	return child;
}

static int visit(const struct node *n)
{
	int children = tree.binomial ? binomial_children(n) : geometric_children(n);

	nodes++;
	if (!children)
		leaves++;
	if ((uint64_t)n->height > deepest)
		deepest = (uint64_t)n->height;
	return children;
}

static void search(struct pgas_deque *tasks, const void *task)
{
	int children = visit(task);

	for (int i = 0; i < children; i++) {
		struct node child = make_child(task, (uint32_t)i);

		pgas_push(tasks, &child);
	}
}

/* Depths are thousands at most. */
static void search_alone(const struct node *n)
{
	int children = visit(n);

	for (int i = 0; i < children; i++) {
		struct node child = make_child(n, (uint32_t)i);

		search_alone(&child);
	}
}

static void usage(void)
{
	fprintf(stderr, "usage: uts [T1|T3|T1L|T3L|T1-7|T1-6|T1-5|T3-60]\n"
			"       uts geometric BRANCHING DEPTH SEED\n"
			"       uts binomial ROOT-CHILDREN CHILDREN PROBABILITY SEED\n");
	exit(2);
}

static void choose_tree(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "T1-6";

	tree = (struct tree){.name = name};
	if (!strcmp(name, "geometric") && argc == 5) {
		tree.branching = atof(argv[2]);
		tree.depth = atoi(argv[3]);
		tree.seed = (uint32_t)atoi(argv[4]);
		return;
	}
	if (!strcmp(name, "binomial") && argc == 6) {
		tree.binomial = true;
		tree.branching = atof(argv[2]);
		tree.children = atoi(argv[3]);
		tree.probability = atof(argv[4]);
		tree.seed = (uint32_t)atoi(argv[5]);
		return;
	}
	for (size_t i = 0; i < sizeof(trees) / sizeof(*trees); i++)
		if (!strcmp(name, trees[i].name)) {
			tree = trees[i];
			return;
		}
	usage();
}

static bool right(uint64_t all_nodes, uint64_t all_leaves, uint64_t depth)
{
	struct node root = make_root();

	if (tree.nodes)
		return all_nodes == tree.nodes && all_leaves == tree.leaves;
	nodes = leaves = deepest = 0;
	search_alone(&root);
	return all_nodes == nodes && all_leaves == leaves && depth == deepest;
}

int main(int argc, char **argv)
{
	struct pgas_deque *tasks;
	uint64_t all_nodes, all_leaves, depth;
	struct node root;

	choose_tree(argc, argv);
	pgas_start(PGAS_DEQUE_BYTES, 0);
	tasks = pgas_make_deque(sizeof(struct node), 8);
	if (pgas_rank() == 0) {
		root = make_root();
		pgas_push(tasks, &root);
	}
	pgas_barrier();
	pgas_run_tasks(tasks, search);
	all_nodes = pgas_sum(nodes);
	all_leaves = pgas_sum(leaves);
	depth = pgas_max(deepest);
	return pgas_end(pgas_result(right(all_nodes, all_leaves, depth),
				    "uts %s: %llu nodes, %llu leaves, depth %llu", tree.name,
				    (unsigned long long)all_nodes, (unsigned long long)all_leaves,
				    (unsigned long long)depth));
}
