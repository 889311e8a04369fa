/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/kernel/code_maps.h"

#include "logd/base/rawsys.h"

static int next_char(struct maps *m)
{
	long n;

	if (m->at == m->n) {
		n = sr_syscall(SYS_read, m->fd, SR_ARG(m->text), sizeof(m->text), 0, 0, 0);
		if (n <= 0)
			return -1;
		m->n = (size_t)n;
		m->at = 0;
	}
	return m->text[m->at++];
}

/* A number, and the character behind it. */
static uint64_t next_number(struct maps *m, unsigned int base)
{
	uint64_t v = 0;
	int c;

	for (;;) {
		c = next_char(m);
		if (c >= '0' && c <= '9')
			v = v * base + (unsigned int)(c - '0');
		else if (base == 16 && c >= 'a' && c <= 'f')
			v = v * base + (unsigned int)(c - 'a' + 10);
		else
			return v;
	}
}

bool next_mapping(struct maps *m, struct mapping *map)
{
	size_t n = 0;
	int c = next_char(m);

	if (c < 0)
		return false;
	m->at--;
	*map = (struct mapping){.begin = next_number(m, 16)};
	map->end = next_number(m, 16);
	map->readable = next_char(m) == 'r';
	map->writable = next_char(m) == 'w';
	map->executable = next_char(m) == 'x';
	map->shared = next_char(m) == 's';
	next_char(m);
	map->offset = next_number(m, 16);
	next_number(m, 16);
	next_number(m, 16);
	map->inode = next_number(m, 10);
	while ((c = next_char(m)) >= 0 && c != '\n')
		if (c != ' ' && n < sizeof(map->name) - 1)
			map->name[n++] = (char)c;
	return true;
}
