/* SPDX-License-Identifier: BSD-2-Clause */
/* strings.h: texts that a report names by number, so that each is in the page once. */
#ifndef REPLAY_REPORT_STRINGS_H
#define REPLAY_REPORT_STRINGS_H

#include <stddef.h>
#include <stdio.h>

struct sr_strings {
	char **texts;
	size_t n, room;
	size_t *slots, slots_n; /* hash table: number + 1; a power of two of them */
	int failed;             /* no memory left */
};

/* The number of a text. */
size_t sr_strings_number(struct sr_strings *s, const char *text);
/* All as a JSON list. */
void sr_strings_write(const struct sr_strings *s, FILE *out);
void sr_strings_free(struct sr_strings *s);

#endif
