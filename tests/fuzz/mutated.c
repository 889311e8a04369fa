/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * mutated: the fuzz target over changed inputs, for builds without libFuzzer.
 *
 *     mutated CORPUS [COUNT [SEED]]
 *
 * Each input is one of the corpus with some changes that the seed decides.  It prints the seed, and
 * with the same one it does the same again.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "changes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

#define MOST	    20000 /* bytes of an input */
#define MOST_INPUTS 4096
#define KINDS	    7 /* of fuzz_reader.c */

struct input {
	uint8_t *data;
	size_t size;
};

static struct input inputs[MOST_INPUTS];
static size_t inputs_n;

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void load(const char *dir, const char *name)
{
	struct input *in = &inputs[inputs_n];
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = name[0] == '.' || inputs_n == MOST_INPUTS ? NULL : fopen(path, "rb");
	if (!f)
		return;
	in->data = malloc(MOST);
	in->size = fread(in->data, 1, MOST, f);
	inputs_n += in->size > 0;
	fclose(f);
}

static void load_all(const char *dir)
{
	struct dirent **list;
	int n = scandir(dir, &list, NULL, by_name);

	for (int i = 0; i < n; i++) {
		load(dir, list[i]->d_name);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

int main(int argc, char **argv)
{
	unsigned long long count = argc > 2 ? strtoull(argv[2], NULL, 0) : 10000;
	unsigned long long number = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	static uint8_t data[MOST];

	if (argc < 2)
		return 2;
	LLVMFuzzerInitialize(&argc, &argv);
	load_all(argv[1]);
	if (!inputs_n)
		return 2;
	seed(number);
	for (unsigned long long i = 0; i < count; i++) {
		const struct input *in = &inputs[below(inputs_n)];
		size_t size = in->size;

		memcpy(data, in->data, size);
		for (size_t changes = 1 + below(8); changes && size > 1; changes--) {
			const struct input *other = &inputs[below(inputs_n)];

			size = change(data, size, MOST, other->data, other->size);
		}
		/* The first byte says which file it is, and stays one of those. */
		if (data[0] >= KINDS || !below(8))
			data[0] = (uint8_t)below(KINDS);
		LLVMFuzzerTestOneInput(data, size);
	}
	printf("1..1\nok 1 - %llu changed inputs, seed %llu\n", count, number);
	return 0;
}
