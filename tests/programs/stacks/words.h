/* SPDX-License-Identifier: BSD-2-Clause */
/* words.h: what a rank puts into another one's memory in a round, told apart from all else. */
#ifndef APPS_WORDS_H
#define APPS_WORDS_H

#include <stdbool.h>

#define WORDS 512 /* put and got at once */

static inline long element(int from, int round, int i)
{
	return from * 1000003L + round * 1009L + i;
}

static inline bool same(const long *words, int from, int round)
{
	for (int i = 0; i < WORDS; i++)
		if (words[i] != element(from, round, i))
			return false;
	return true;
}

#endif
