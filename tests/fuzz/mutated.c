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
static uint64_t state;

/* splitmix64 */
static uint64_t draw(void)
{
	uint64_t z = (state += 0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static size_t below(size_t n)
{
	return n ? draw() % n : 0;
}

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

/* Numbers at the borders of what fields can hold. */
static void put_number(uint8_t *data, size_t size)
{
	static const uint64_t numbers[] = {0,	       1,	   7,	       8,	   63,
					   64,	       255,	   65535,      0x7fffffff, 0x80000000,
					   0xffffffff, 0x40000000, 4u << 20,   1ull << 63, UINT64_MAX};
	uint64_t number = numbers[below(sizeof(numbers) / sizeof(numbers[0]))];
	size_t width = (size_t)1 << below(4), at = below(size);

	memcpy(data + at, &number, width < size - at ? width : size - at);
}

/* Puts a piece of another input, or of this one, over or into it. */
static size_t splice(uint8_t *data, size_t size)
{
	const struct input *other = &inputs[below(inputs_n)];
	size_t from = below(other->size), n = below(other->size - from + 1), at = below(size);

	if (draw() & 1) { /* over */
		n = n < size - at ? n : size - at;
		memcpy(data + at, other->data + from, n);
		return size;
	}
	n = n < MOST - size ? n : MOST - size;
	memmove(data + at + n, data + at, size - at);
	memcpy(data + at, other->data + from, n);
	return size + n;
}

static size_t cut(uint8_t *data, size_t size)
{
	size_t at = below(size), n = below(size - at + 1);

	if (n >= size)
		return size;
	memmove(data + at, data + at + n, size - at - n);
	return size - n;
}

/* The first byte says which file it is, and stays one of those. */
static size_t change(uint8_t *data, size_t size)
{
	switch (below(5)) {
	case 0:
		data[below(size)] ^= (uint8_t)(1u << below(8));
		break;
	case 1:
		data[below(size)] = (uint8_t)draw();
		break;
	case 2:
		put_number(data, size);
		break;
	case 3:
		size = splice(data, size);
		break;
	default:
		size = cut(data, size);
	}
	return size;
}

int main(int argc, char **argv)
{
	unsigned long long count = argc > 2 ? strtoull(argv[2], NULL, 0) : 10000;
	unsigned long long seed = argc > 3 ? strtoull(argv[3], NULL, 0) : 1;
	static uint8_t data[MOST];

	if (argc < 2)
		return 2;
	LLVMFuzzerInitialize(&argc, &argv);
	load_all(argv[1]);
	if (!inputs_n)
		return 2;
	state = seed;
	for (unsigned long long i = 0; i < count; i++) {
		const struct input *in = &inputs[below(inputs_n)];
		size_t size = in->size;

		memcpy(data, in->data, size);
		for (size_t changes = 1 + below(8); changes && size > 1; changes--)
			size = change(data, size);
		if (data[0] >= KINDS || !below(8))
			data[0] = (uint8_t)below(KINDS);
		LLVMFuzzerTestOneInput(data, size);
	}
	printf("1..1\nok 1 - %llu changed inputs, seed %llu\n", count, seed);
	return 0;
}
