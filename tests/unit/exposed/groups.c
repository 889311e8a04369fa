/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * groups.c: prints, for each place in a file (given in hexadecimal), where the instructions
 * under a jump begin (groups.py).
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "shim/exposed/x86/relocate.h"

int main(int argc, char **argv)
{
	int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	const uint8_t *file;
	unsigned long at;
	struct stat st;
	struct group g;

	if (fd < 0 || fstat(fd, &st))
		return 1;
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		return 1;
	while (scanf("%lx", &at) == 1) {
		if (at + 2 * GROUP_BYTES_MAX > (unsigned long)st.st_size || !group_of(file + at, at, &g))
			continue;
		printf("%lx", at);
		for (unsigned int i = 1; i <= g.n; i++)
			printf(" %lx", at + g.at[i]);
		putchar('\n');
	}
	return 0;
}
