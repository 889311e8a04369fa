/* SPDX-License-Identifier: BSD-2-Clause */
/* decimal.h: decimal numbers out of text, by digits alone: no sign, no space, no locale. */
#ifndef LOGD_BASE_DECIMAL_H
#define LOGD_BASE_DECIMAL_H

#include <stdbool.h>

/* Moves *text behind the number.  False if there is none, or if it is above `most`. */
static inline bool sr_decimal(const char **text, long most, long *value)
{
	const char *p = *text;
	long v = 0;

	for (; *p >= '0' && *p <= '9'; p++) {
		long digit = *p - '0';

		if (digit > most || v > (most - digit) / 10)
			return false;
		v = 10 * v + digit;
	}
	if (p == *text)
		return false;
	*text = p;
	*value = v;
	return true;
}

#endif
