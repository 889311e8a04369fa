/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/print/exec.h"

#include <stdlib.h>
#include <string.h>

#include <sreplay/trace.h>

#include "logd/base/hex.h"
#include "replay/print/names.h"

struct strings {
	const char *at, *end;
};

/* The next string; NULL: there is none, or its end is missing. */
static const char *next(struct strings *s)
{
	const char *text = s->at;
	const char *end = text < s->end ? memchr(text, 0, (size_t)(s->end - text)) : NULL;

	if (!end)
		return NULL;
	s->at = end + 1;
	return text;
}

/* A string need not be UTF-8. */
static json_t *string_of(const char *text, size_t n)
{
	json_t *string = json_stringn(text, n);
	char *hex = string ? NULL : calloc(1, 2 * n + 1);

	if (hex) {
		sr_to_hex(hex, text, n);
		string = json_pack("{s:s}", "hex", hex);
		free(hex);
	}
	return string ? string : json_null();
}

static size_t take_path(struct strings *s, const char **path)
{
	*path = s->at;
	/* Earlier versions wrote the path only, without a 0. */
	return next(s) ? strlen(*path) : (size_t)(s->end - s->at);
}

static size_t take_count(struct strings *s)
{
	const char *text = next(s);

	return text ? strtoul(text, NULL, 10) : 0;
}

json_t *sr_exec_decode(const void *payload, size_t size)
{
	struct strings s = {payload, (const char *)payload + size};
	json_t *arguments = json_array();
	const char *path, *text;
	size_t length = take_path(&s, &path), n = take_count(&s), event;

	for (; n && (text = next(&s)); n--)
		json_array_append_new(arguments, string_of(text, strlen(text)));
	n = take_count(&s);
	text = next(&s);
	event = take_count(&s);
	return json_pack("{s:s, s:o, s:o, s:I, s:o, s:o*}", "record", sr_record_name(SR_REC_EXEC), "path",
			 string_of(path, length), "arguments", arguments, "variables",
			 (json_int_t)n, "checksum", text ? string_of(text, strlen(text)) : json_null(),
			 "order", event ? json_integer((json_int_t)event) : NULL);
}

void sr_print_exec(FILE *out, const void *payload, size_t size)
{
	struct strings s = {payload, (const char *)payload + size};
	const char *path, *text;
	size_t length = take_path(&s, &path), n = take_count(&s);

	fprintf(out, " %.*s%s", (int)length, path, n ? ":" : "");
	for (; n && (text = next(&s)); n--)
		fprintf(out, " %s", text);
}
