/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/json.h"

#include <stdlib.h>
#include <string.h>

#include "logd/base/hex.h"
#include "replay/print/json_text.h"

/* The library leaves DEL as it is, and the terminal's guard does not know of JSON. */
static int put_ascii(const char *text, size_t size, void *out)
{
	for (size_t i = 0; i < size; i++)
		if (text[i] == 0x7f)
			fputs("\\u007f", out);
		else
			putc(text[i], out);
	return 0;
}

void sr_json_write(FILE *out, json_t *object)
{
	json_dump_callback(object, put_ascii, out, JSON_COMPACT | JSON_ENSURE_ASCII);
	putc('\n', out);
	json_decref(object);
}

void sr_json_print(json_t *object)
{
	sr_json_write(stdout, object);
}

/* Without bytes that are no UTF-8, which the library refuses. */
static json_t *repaired(const char *text)
{
	char *copy = NULL;
	size_t size, left = strlen(text);
	FILE *out = open_memstream(&copy, &size);
	json_t *string;

	while (out && left) {
		size_t n = sr_utf8_length(text, left);

		if (n)
			fwrite(text, 1, n, out);
		else
			fputs("\xef\xbf\xbd", out);
		n = n ? n : 1;
		text += n;
		left -= n;
	}
	string = out && !fclose(out) ? json_string(copy) : NULL;
	free(copy);
	return string;
}

json_t *sr_json_string(const char *text)
{
	json_t *string = text ? json_string(text) : NULL;

	if (text && !string)
		string = repaired(text);
	return string ? string : json_null();
}

json_t *sr_json_address(uint64_t address)
{
	return json_sprintf("0x%llx", (unsigned long long)address);
}

json_t *sr_json_hex(const void *bytes, size_t n)
{
	char *text = malloc(2 * n + 1);
	json_t *string;

	if (!text)
		return json_null();
	sr_to_hex(text, bytes, n);
	string = json_string(text);
	free(text);
	return string;
}

json_t *sr_json_count(uint64_t n)
{
	return json_integer((json_int_t)n);
}

int sr_json_rank(const char *name, const char **child)
{
	char *end;
	int rank = (int)strtol(name, &end, 10);

	*child = *end == '/' ? end + 1 : NULL;
	return rank;
}
