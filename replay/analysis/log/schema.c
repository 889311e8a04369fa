/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/analysis/log/schema.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <sreplay/trace.h>

#include "logd/base/hex.h"
#include "logd/trace/layouts.h"
#include "logd/trace/read_trace.h"
#include "shim/core/call.h"
#include "shim/core/order.h"

/* Structures and arrays in each other; more levels mean a damaged schema. */
#define MAX_DEPTH 8

struct sr_schema {
	json_t *root;
	json_t *structs;
	json_t *calls;
};

/* One record of the largest requests and tables has some ten thousand values. */
#define MAX_VALUES (1 << 20)

struct cursor {
	const uint8_t *p;
	size_t left;
	bool bad;
	uint32_t values; /* how many there were; a schema may ask for any number, of no bytes each */
};

/* Ranks that one build has recorded have the same text, and it is asked for again and again: the last one stays. */
static struct {
	pthread_mutex_t lock;
	char *text;
	size_t size;
	json_t *root;
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

static json_t *parse_text(const char *text, size_t size)
{
	json_error_t error;
	json_t *root;
	char *copy;

	pthread_mutex_lock(&last.lock);
	if (last.text && last.size == size && !memcmp(last.text, text, size)) {
		root = json_incref(last.root);
	} else {
		root = json_loadb(text, size, 0, &error);
		copy = root ? malloc(size + 1) : NULL;
		if (copy) {
			free(last.text);
			json_decref(last.root);
			last.text = memcpy(copy, text, size);
			last.size = size;
			last.root = json_incref(root);
		}
	}
	pthread_mutex_unlock(&last.lock);
	return root;
}

static struct sr_schema *parse(const char *text, size_t size)
{
	struct sr_schema *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->root = parse_text(text, size);
	s->structs = json_object_get(s->root, "structs");
	s->calls = json_object_get(s->root, "calls");
	if (!json_is_object(s->structs) || !json_is_array(s->calls)) {
		sr_schema_free(s);
		return NULL;
	}
	return s;
}

struct sr_schema *sr_schema_of(const struct sr_trace *t, int32_t rank, struct sr_error *err)
{
	size_t size;
	const char *text = sr_trace_schema(t, rank, &size);
	struct sr_schema *s = text ? parse(text, size) : NULL;

	if (!s)
		sr_error_set(err, -EBADMSG, SR_SCHEMA_DAMAGED, sr_trace_dir(t), rank);
	return s;
}

void sr_schema_free(struct sr_schema *s)
{
	if (!s)
		return;
	json_decref(s->root);
	free(s);
}

static const json_t *call_of(const struct sr_schema *s, uint16_t kind)
{
	return kind < SR_REC_CALL ? NULL : json_array_get(s->calls, kind - SR_REC_CALL);
}

const char *sr_schema_name(const struct sr_schema *s, uint16_t kind)
{
	const char *name = json_string_value(json_object_get(call_of(s, kind), "name"));

	return name ? name : kind ? "an unknown call" : "exit";
}

bool sr_schema_is_direct(const struct sr_schema *s, uint16_t kind)
{
	return json_is_true(json_object_get(call_of(s, kind), "direct"));
}

bool sr_schema_pauses(const struct sr_schema *s, uint16_t kind)
{
	return json_is_true(json_object_get(call_of(s, kind), "pauses"));
}

/* -------------------------------------------------------------- decoding */

static const void *take(struct cursor *c, size_t n)
{
	const void *p = c->p;

	if (c->left < n) {
		c->bad = true;
		return NULL;
	}
	c->p += n;
	c->left -= n;
	return p;
}

static uint64_t take_integer(struct cursor *c, size_t n)
{
	uint64_t v = 0;
	const void *p = take(c, n);

	if (p)
		memcpy(&v, p, n);
	return v;
}

static json_t *hex_number(uint64_t v)
{
	return json_sprintf("0x%llx", (unsigned long long)v);
}

static json_t *hex_bytes(const uint8_t *p, size_t n)
{
	char *text = malloc(2 * n + 1);
	json_t *value;

	if (!text)
		return NULL;
	sr_to_hex(text, p, n);
	value = json_object();
	json_object_set_new(value, "hex", json_string(text));
	free(text);
	return value;
}

static json_t *decode_integer(const char *type, size_t n, struct cursor *c)
{
	uint64_t v = take_integer(c, n);

	if (type[0] == 'x' || type[0] == 'p')
		return hex_number(v);
	if (type[0] == 'i')
		v = (uint64_t)((int64_t)(v << (64 - 8 * n)) >> (64 - 8 * n));
	else if (v > INT64_MAX) /* JSON integers of jansson are signed */
		return hex_number(v);
	return json_integer((json_int_t)v);
}

static json_t *decode_fields(const struct sr_schema *s, const json_t *fields, struct cursor *c,
			     int depth);

static json_t *decode_type(const struct sr_schema *s, const char *type, struct cursor *c,
			   int depth);

static json_t *decode_array(const struct sr_schema *s, const char *type, struct cursor *c,
			    int depth)
{
	uint64_t n = take_integer(c, 4);
	json_t *array = json_array();

	for (uint64_t i = 0; i < n && !c->bad; i++)
		json_array_append_new(array, decode_type(s, type, c, depth + 1));
	return array;
}

static json_t *decode_bytes(const char *type, struct cursor *c)
{
	size_t n = take_integer(c, 4);
	const void *p = c->bad ? NULL : take(c, n);
	json_t *text = NULL;

	if (!p)
		return json_null();
	if (!strcmp(type, "string"))
		text = json_stringn(p, n && !((const char *)p)[n - 1] ? n - 1 : n);
	else if (!strcmp(type, "chars"))
		text = json_stringn(p, n);
	return text ? text : hex_bytes(p, n);
}

static json_t *decode_suffixed(const struct sr_schema *s, const char *type, struct cursor *c,
			       int depth)
{
	size_t n = strlen(type);
	char inner[64];

	if (!n || n >= sizeof(inner))
		return NULL;
	memcpy(inner, type, n + 1);
	if (type[n - 1] == '?') {
		inner[n - 1] = '\0';
		return take_integer(c, 1) ? decode_type(s, inner, c, depth + 1) : json_null();
	}
	if (n > 2 && !strcmp(type + n - 2, "[]")) {
		inner[n - 2] = '\0';
		return decode_array(s, inner, c, depth);
	}
	return NULL;
}

/* Name tables are text in fixed fields, and are printed as text. */
static json_t *decode_raw(size_t n, struct cursor *c)
{
	const char *p = take(c, n);
	json_t *text;

	if (!p)
		return json_null();
	text = n > 16 ? json_stringn(p, strnlen(p, n)) : NULL;
	return text ? text : hex_bytes((const uint8_t *)p, n);
}

static json_t *decode_type(const struct sr_schema *s, const char *type, struct cursor *c, int depth)
{
	size_t n = sr_type_bytes(type);
	json_t *value;
	const json_t *fields;

	if (depth > MAX_DEPTH || c->bad || ++c->values > MAX_VALUES) {
		c->bad = true;
		return json_null();
	}
	value = decode_suffixed(s, type, c, depth);
	if (value)
		return value;
	if (n)
		return decode_integer(type, n, c);
	if (!strncmp(type, "raw", 3))
		return decode_raw((size_t)strtoul(type + 3, NULL, 10), c);
	if (!strcmp(type, "bytes") || !strcmp(type, "string") || !strcmp(type, "chars"))
		return decode_bytes(type, c);
	fields = json_object_get(s->structs, type);
	if (!fields) {
		c->bad = true;
		return json_null();
	}
	return decode_fields(s, fields, c, depth + 1);
}

static json_t *decode_fields(const struct sr_schema *s, const json_t *fields, struct cursor *c,
			     int depth)
{
	json_t *object = json_object();
	const json_t *field;
	size_t i;

	json_array_foreach((json_t *)fields, i, field)
	{
		const char *name = json_string_value(json_object_get(field, "name"));
		const char *type = json_string_value(json_object_get(field, "type"));

		if (!name || !type || c->bad) {
			c->bad = true;
			break;
		}
		json_object_set_new(object, name, decode_type(s, type, c, depth));
	}
	return object;
}

static json_t *decode_list(const struct sr_schema *s, uint16_t kind, const char *list,
			   const void *p, size_t size)
{
	struct cursor c = {p, size, false, 0};
	json_t *value = decode_fields(s, json_object_get(call_of(s, kind), list), &c, 0);

	if (!c.bad && !c.left)
		return value;
	json_decref(value);
	return NULL;
}

json_t *sr_schema_decode_in(const struct sr_schema *s, uint16_t kind, const void *in, size_t size)
{
	return decode_list(s, kind, "in", in, size);
}

static json_t *decode_result(const struct sr_schema *s, uint16_t kind, uint64_t result)
{
	const char *type = json_string_value(json_object_get(call_of(s, kind), "ret"));
	struct cursor c = {(const uint8_t *)&result, sizeof(result), false, 0};
	size_t n = type ? sr_type_bytes(type) : 0;

	return n ? decode_integer(type, n, &c) : json_null();
}

static json_t *numbers(const uint8_t *p, unsigned int n)
{
	json_t *list = json_array();
	uint64_t number;

	for (unsigned int i = 0; i < n; i++) {
		memcpy(&number, p + i * sizeof(number), sizeof(number));
		json_array_append_new(list, json_integer((json_int_t)number));
	}
	return list;
}

json_t *sr_schema_decode(const struct sr_schema *s, uint16_t kind, const void *payload, size_t size)
{
	struct sr_call_head head;
	json_t *in, *out, *value;
	const uint8_t *p = payload;

	if (!call_of(s, kind) || size < sizeof(head))
		return NULL;
	memcpy(&head, payload, sizeof(head));
	p += sizeof(head);
	size -= sizeof(head);
	if (head.in_size + head.orders * sizeof(uint64_t) > size)
		return NULL;
	size -= head.orders * sizeof(uint64_t);
	in = decode_list(s, kind, "in", p, head.in_size);
	out = decode_list(s, kind, "out", p + head.in_size, size - head.in_size);
	value = json_object();
	json_object_set_new(value, "site", hex_number(head.site));
	json_object_set_new(value, "result", decode_result(s, kind, head.result));
	json_object_set_new(value, "errno", json_integer(head.error));
	if (head.orders)
		json_object_set_new(value, "order", numbers(p + size, head.orders));
	if (in && (out || head.error == SR_ERROR_CANCELLED)) {
		if (!out)
			out = json_object();
		json_object_set(value, "in", in);
		json_object_set(value, "out", out);
	} else {
		json_decref(value);
		value = NULL;
	}
	json_decref(in);
	json_decref(out);
	return value;
}

/* -------------------------------------------------------------- printing */

#define SHOWN_HEX 32 /* digits of a byte string */

static void print_hex(FILE *out, const char *hex)
{
	size_t n = strlen(hex) / 2;

	if (n <= 16)
		fprintf(out, "%s", n ? hex : "\"\"");
	else
		fprintf(out, "[%zu bytes] %.*s...", n, SHOWN_HEX, hex);
}

/* A record is one line. */
static void print_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++)
		if (*text == '\n')
			fputs("\\n", out);
		else
			fputc(*text, out);
	fputc('"', out);
}

static bool is_number(const char *text)
{
	return !strncmp(text, "0x", 2) && !text[2 + strspn(text + 2, "0123456789abcdef")];
}

static void print_object(FILE *out, const json_t *value)
{
	const char *key, *sep = "";
	json_t *v;

	json_object_foreach((json_t *)value, key, v)
	{
		fprintf(out, "%s%s=", sep, key);
		sep = " ";
		if (json_is_object(v) && !json_is_string(json_object_get(v, "hex"))) {
			fputc('{', out);
			sr_schema_print(out, v);
			fputc('}', out);
		} else {
			sr_schema_print(out, v);
		}
	}
}

void sr_schema_print(FILE *out, const json_t *value)
{
	const char *hex = json_string_value(json_object_get(value, "hex"));
	const json_t *v;
	size_t i;

	if (hex) {
		print_hex(out, hex);
	} else if (json_is_object(value)) {
		print_object(out, value);
	} else if (json_is_array(value)) {
		fputc('[', out);
		json_array_foreach((json_t *)value, i, v)
		{
			fprintf(out, "%s{", i ? " " : "");
			sr_schema_print(out, v);
			fputc('}', out);
		}
		fputc(']', out);
	} else if (json_is_string(value)) {
		/* numbers in hexadecimal are strings to JSON */
		const char *text = json_string_value(value);

		if (is_number(text))
			fputs(text, out);
		else
			print_text(out, text);
	} else if (json_is_integer(value)) {
		fprintf(out, "%lld", (long long)json_integer_value(value));
	} else {
		fputc('-', out);
	}
}
