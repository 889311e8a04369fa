/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * asynchronous.h: what aio, posix_aio and uring have in common: PROGRAM CASE OUTPUT works on the file OUTPUT.data, may read OUTPUT.in,
 * and prints into OUTPUT.  Without arguments it names the cases.
 */
#ifndef ASYNCHRONOUS_H
#define ASYNCHRONOUS_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct a_case {
	const char *name;
	void (*run)(void);
};

static FILE *out;
static int file, in;
static char data_path[256];

static void print_sum(const char *what, const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum = sum * 31 + p[i];
	fprintf(out, "%s: %016lx\n", what, (long)sum);
}

static int run_case(const struct a_case *cases, size_t n, int argc, char **argv)
{
	char name[256];

	for (size_t i = 0; i < n; i++) {
		if (argc < 3) {
			puts(cases[i].name);
		} else if (!strcmp(argv[1], cases[i].name)) {
			out = fopen(argv[2], "w");
			snprintf(data_path, sizeof(data_path), "%s.data", argv[2]);
			file = open(data_path, O_RDWR | O_CREAT | O_TRUNC, 0600);
			snprintf(name, sizeof(name), "%s.in", argv[2]);
			in = open(name, O_RDONLY);
			cases[i].run();
			fclose(out);
		}
	}
	return 0;
}

#endif
