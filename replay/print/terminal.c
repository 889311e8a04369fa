/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/terminal.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

/* Of one stream. */
struct guard {
	FILE *raw;
	int fd;
	unsigned char held; /* 0xc2, which begins a control character of UTF-8; 0: none */
};

static FILE *raw_error;

/* The terminal's control characters of one byte. */
static bool is_control(unsigned char c)
{
	return (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
}

static bool put(int fd, const char *text, size_t n)
{
	while (n) {
		ssize_t done = write(fd, text, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		text += done;
		n -= (size_t)done;
	}
	return true;
}

/*
 * Translates one byte.  The control characters U+0080 to U+009f are 0xc2 0x80 to 0xc2 0x9f: so
 * 0xc2 is held until it is known what follows.
 */
static size_t translate(struct guard *g, unsigned char c, char to[10])
{
	static const char digits[] = "0123456789abcdef";
	bool after = g->held, second = after && c >= 0x80 && c < 0xa0;
	size_t n = 0;

	g->held = 0;
	if (second || is_control(c)) {
		if (after && !second)
			to[n++] = (char)0xc2;
		to[n++] = '\\';
		to[n++] = 'x';
		to[n++] = digits[c >> 4];
		to[n++] = digits[c & 15];
		return n;
	}
	if (after)
		to[n++] = (char)0xc2;
	if (c == 0xc2)
		g->held = c;
	else
		to[n++] = (char)c;
	return n;
}

static ssize_t guarded_write(void *cookie, const char *text, size_t size)
{
	struct guard *g = cookie;
	char out[4096];
	size_t n = 0;

	for (size_t i = 0; i < size; i++) {
		if (n + 10 > sizeof(out)) {
			if (!put(g->fd, out, n))
				return 0;
			n = 0;
		}
		n += translate(g, (unsigned char)text[i], out + n);
	}
	return put(g->fd, out, n) ? (ssize_t)size : 0;
}

void sr_terminal_guard(FILE **stream)
{
	static struct guard guards[2];
	static const cookie_io_functions_t functions = {.write = guarded_write};
	struct guard *g = &guards[*stream == stderr];
	FILE *guarded;

	*g = (struct guard){.raw = *stream, .fd = fileno(*stream)};
	fflush(*stream);
	guarded = fopencookie(g, "w", functions);
	if (!guarded)
		return;
	/* Whole lines, so that they do not mix with the program's. */
	setvbuf(guarded, NULL, *stream == stderr || isatty(g->fd) ? _IOLBF : _IOFBF, BUFSIZ);
	if (*stream == stderr)
		raw_error = *stream;
	*stream = guarded;
}

FILE *sr_terminal_raw_error(void)
{
	return raw_error ? raw_error : stderr;
}
