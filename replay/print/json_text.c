/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/json_text.h"

#include <stdint.h>
#include <string.h>

size_t sr_utf8_length(const char *text, size_t size)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t n = p[0] < 0x80                   ? 1
		   : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
		   : (p[0] & 0xf0) == 0xe0       ? 3
		   : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
						 : 0;

	if (!n || n > size)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	/* Longer than need be, surrogates, and beyond the last character. */
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return n;
}

void sr_json_text(FILE *out, const char *text)
{
	size_t left = strlen(text);

	putc('"', out);
	while (left) {
		size_t n = sr_utf8_length(text, left);
		uint8_t c = (uint8_t)*text;

		if (!n)
			fputs("\\ufffd", out);
		else if (n > 1)
			fwrite(text, 1, n, out);
		else if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c == 0x7f || c == '<' || c == '>' || c == '&')
			fprintf(out, "\\u%04x", c);
		else
			putc(c, out);
		n = n ? n : 1;
		text += n;
		left -= n;
	}
	putc('"', out);
}
