/* SPDX-License-Identifier: BSD-2-Clause */
/* hex.h: bytes to hexadecimal text and back, without calls and allocations. */
#ifndef LOGD_BASE_HEX_H
#define LOGD_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* text: 2 * n + 1 characters. */
static inline void sr_to_hex(char *text, const void *bytes, size_t n)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i++) {
		text[2 * i] = digits[p[i] >> 4];
		text[2 * i + 1] = digits[p[i] & 15];
	}
	text[2 * n] = '\0';
}

static inline int sr_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* False: the text is not exactly 2 * n digits; some bytes may have been written. */
static inline bool sr_from_hex(const char *text, uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int high = sr_hex_digit(text[2 * i]);
		int low = high < 0 ? -1 : sr_hex_digit(text[2 * i + 1]);

		if (low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return !text[2 * n];
}

#endif
