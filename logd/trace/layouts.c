/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/trace/layouts.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "logd/trace/format.h"

/* A schema with more is damaged. */
#define STEPS_MAX  65536
#define DEPTH_MAX  8
#define VALUES_MAX 65536

/* A longer text is one field; what is shorter may well be some numbers. */
#define TEXT_MIN   65

/* ---- schema.json, compiled ---- */

enum op {
	FIXED,    /* `size` bytes */
	BYTES,    /* u32, and so many bytes */
	ARRAY,    /* u32, and so many times the steps up to `end` */
	OPTIONAL, /* u8, and the steps up to `end` if that is not 0 */
};

struct step {
	enum op op;
	uint32_t size;
	uint32_t end;
};

/* Steps from `begin` up to `end`. */
struct part {
	uint32_t begin, end;
};

struct sr_layouts {
	struct step *steps;
	uint32_t n, room;
	uint32_t calls_n;
	struct {
		struct part in, out;
	} * calls;
};

size_t sr_type_bytes(const char *type)
{
	if (!strcmp(type, "ptr"))
		return 8;
	if (!type[0] || !strchr("uix", type[0]))
		return 0;
	switch (atoi(type + 1)) {
	case 8:
		return 1;
	case 16:
		return 2;
	case 32:
		return 4;
	case 64:
		return 8;
	default:
		return 0;
	}
}

/* The new step's number, or -1. */
static int64_t add_step(struct sr_layouts *l, enum op op, uint32_t size)
{
	if (l->n == STEPS_MAX)
		return -1;
	if (l->n == l->room) {
		uint32_t room = 2 * l->room + 256;
		struct step *more = realloc(l->steps, room * sizeof(*more));

		if (!more)
			return -1;
		l->steps = more;
		l->room = room;
	}
	l->steps[l->n] = (struct step){.op = op, .size = size};
	return l->n++;
}

static bool add_fields(struct sr_layouts *l, const json_t *structs, const json_t *fields,
		       int depth);

static bool add_type(struct sr_layouts *l, const json_t *structs, const char *type, int depth);

/* T[] and T? */
static bool add_suffixed(struct sr_layouts *l, const json_t *structs, const char *type, size_t n,
			 int depth)
{
	bool is_array = type[n - 1] == ']';
	size_t inner_n = n - (is_array ? 2 : 1);
	char inner[64];
	int64_t step;

	if (inner_n == 0 || inner_n >= sizeof(inner))
		return false;
	memcpy(inner, type, inner_n);
	inner[inner_n] = 0;
	step = add_step(l, is_array ? ARRAY : OPTIONAL, 0);
	if (step < 0 || !add_type(l, structs, inner, depth + 1))
		return false;
	l->steps[step].end = l->n;
	return true;
}

static bool add_type(struct sr_layouts *l, const json_t *structs, const char *type, int depth)
{
	size_t n = strlen(type), bytes = sr_type_bytes(type);
	const json_t *fields;
	unsigned long raw;

	if (depth > DEPTH_MAX || !n)
		return false;
	if (type[n - 1] == '?' || (n > 2 && !strcmp(type + n - 2, "[]")))
		return add_suffixed(l, structs, type, n, depth);
	if (bytes)
		return add_step(l, FIXED, (uint32_t)bytes) >= 0;
	if (!strcmp(type, "bytes") || !strcmp(type, "string") || !strcmp(type, "chars"))
		return add_step(l, BYTES, 0) >= 0;
	if (!strncmp(type, "raw", 3)) {
		raw = strtoul(type + 3, NULL, 10);
		return raw <= SR_RECORD_MAX && add_step(l, FIXED, (uint32_t)raw) >= 0;
	}
	fields = json_object_get(structs, type);
	return fields && add_fields(l, structs, fields, depth + 1);
}

static bool add_fields(struct sr_layouts *l, const json_t *structs, const json_t *fields, int depth)
{
	const json_t *field;
	size_t i;

	json_array_foreach((json_t *)fields, i, field)
	{
		const char *type = json_string_value(json_object_get(field, "type"));

		if (!type || !add_type(l, structs, type, depth))
			return false;
	}
	return true;
}

static bool add_list(struct sr_layouts *l, const json_t *root, size_t call, const char *list,
		     struct part *part)
{
	const json_t *described = json_array_get(json_object_get(root, "calls"), call);

	part->begin = l->n;
	if (!add_fields(l, json_object_get(root, "structs"), json_object_get(described, list), 0))
		return false;
	part->end = l->n;
	return true;
}

static bool compile(struct sr_layouts *l, const json_t *root)
{
	size_t n = json_array_size(json_object_get(root, "calls"));

	if (n > UINT16_MAX)
		return false;
	l->calls = calloc(n + 1, sizeof(*l->calls));
	if (!l->calls)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!add_list(l, root, i, "in", &l->calls[i].in) ||
		    !add_list(l, root, i, "out", &l->calls[i].out))
			return false;
	l->calls_n = (uint32_t)n;
	return true;
}

struct sr_layouts *sr_layouts_new(const char *schema, size_t size)
{
	struct sr_layouts *l = calloc(1, sizeof(*l));
	json_t *root = json_loadb(schema, size, 0, NULL);

	if (l && (!root || !compile(l, root))) {
		sr_layouts_free(l);
		l = NULL;
	}
	json_decref(root);
	return l;
}

void sr_layouts_free(struct sr_layouts *l)
{
	if (!l)
		return;
	free(l->steps);
	free(l->calls);
	free(l);
}

/* ---- the fields of a record ---- */

/* A walk through a payload. */
struct walk {
	const uint8_t *p;
	uint32_t left; /* of the part that is being walked */
	struct sr_fields *f;
	uint32_t values;
};

/* False: the part ends before, or the list is full. */
static bool take(struct walk *w, uint32_t n)
{
	if (n > w->left || w->f->n == SR_FIELDS_MAX - 1 || ++w->values > VALUES_MAX)
		return false;
	if (n)
		w->f->width[w->f->n++] = n;
	w->p += n;
	w->left -= n;
	return true;
}

static bool take_fixed(struct walk *w, uint32_t n)
{
	if (n >= TEXT_MIN)
		return take(w, n);
	for (uint32_t width = 8; n; n -= width) {
		while (width > n)
			width /= 2;
		if (!take(w, width))
			return false;
	}
	return true;
}

/* An integer of the payload, which is a field as well. */
static bool take_number(struct walk *w, uint32_t width, uint32_t *value)
{
	const uint8_t *p = w->p;

	*value = 0;
	if (!take(w, width))
		return false;
	memcpy(value, p, width);
	return true;
}

static bool take_steps(struct walk *w, const struct sr_layouts *l, struct part part);

static bool take_step(struct walk *w, const struct sr_layouts *l, uint32_t number)
{
	const struct step *step = &l->steps[number];
	struct part body = {number + 1, step->end};
	uint32_t n;

	switch (step->op) {
	case FIXED:
		return take_fixed(w, step->size);
	case BYTES:
		return take_number(w, 4, &n) && take_fixed(w, n);
	case OPTIONAL:
		return take_number(w, 1, &n) && (!n || take_steps(w, l, body));
	default:
		if (!take_number(w, 4, &n))
			return false;
		/* Each takes a byte at least, or as many as there are would take no end. */
		for (uint32_t i = 0, left = w->left; i < n && (!i || w->left < left); i++)
			if (!take_steps(w, l, body))
				return false;
		return true;
	}
}

static bool take_steps(struct walk *w, const struct sr_layouts *l, struct part part)
{
	uint32_t i = part.begin;

	while (i < part.end) {
		const struct step *step = &l->steps[i];

		if (!take_step(w, l, i))
			return false;
		i = step->op == ARRAY || step->op == OPTIONAL ? step->end : i + 1;
	}
	return true;
}

/* What the layout does not say of a part. */
static void take_rest(struct walk *w)
{
	if (w->left && !take_fixed(w, w->left))
		take(w, w->left);
}

/* A call's payload begins with these: its site, result, errno, and the sizes of what follows. */
static const uint32_t call_head[] = {8, 8, 4, 4};
#define CALL_HEAD_BYTES     24
#define CALL_IN_SIZE(sizes) ((sizes) & ((1u << 30) - 1))
#define CALL_EVENTS(sizes)  ((sizes) >> 30)

/* False: it is not as long as its head says. */
static bool walk_call(struct walk *w, const struct sr_layouts *l, uint32_t number)
{
	uint32_t sizes, in, events, left = w->left;

	if (left < CALL_HEAD_BYTES)
		return false;
	memcpy(&sizes, w->p + CALL_HEAD_BYTES - sizeof(sizes), sizeof(sizes));
	in = CALL_IN_SIZE(sizes);
	events = 8 * CALL_EVENTS(sizes);
	left -= CALL_HEAD_BYTES;
	if (left < in || left - in < events)
		return false;
	for (size_t i = 0; i < sizeof(call_head) / sizeof(call_head[0]); i++)
		take(w, call_head[i]);
	w->left = in;
	if (l && number < l->calls_n)
		take_steps(w, l, l->calls[number].in);
	take_rest(w);
	w->left = left - in - events;
	if (l && number < l->calls_n)
		take_steps(w, l, l->calls[number].out);
	take_rest(w);
	w->left = events;
	return true;
}

/* Of records that are no calls: the first fields, and of what width all others are. */
static const struct other {
	uint16_t kind;
	const char *first; /* a digit for each */
	uint32_t others;
} others[] = {
    {SR_REC_REPEAT, "8", 8},        {SR_REC_HEAP, "448", 8},    {SR_REC_CLOCK, "", 1},
    {SR_REC_RUN_TOKEN, "44888", 8}, {SR_REC_CONNECTION, "", 4}, {SR_REC_FORK, "", 4},
    {SR_REC_PLACE, "88444444", 8},  {SR_REC_CHECK, "", 4},
    {SR_REC_CYCLE, "4", 1},
    {SR_REC_BEHIND, "8", 8},        {SR_REC_PICKED, "8", 4},
    {SR_REC_CHANGED, "8448", 8},    {SR_REC_PASSED, "4", 4},
};

_Static_assert(sizeof(struct sr_repeat_payload) == 8 && sizeof(struct sr_heap_payload) == 16 &&
		   sizeof(struct sr_exposed_payload) == 32 && sizeof(struct sr_token_payload) == 32 &&
		   sizeof(struct sr_place_payload) == 192 && sizeof(struct sr_cycle_payload) == 16,
	       "the fields above are theirs");

/* What is left out has its length first, and then bytes of a checksum, of which differences would be longer than they are. */
static bool walk_left_out(struct walk *w, uint32_t length)
{
	return take(w, 4) && (length == 8 ? take(w, 3) && take(w, 1) : take_fixed(w, length - 4));
}

static bool walk_value(struct walk *w)
{
	uint64_t addr = 0;
	uint32_t length;

	if (w->left >= sizeof(addr))
		memcpy(&addr, w->p, sizeof(addr));
	if (!take(w, 8) || !take_number(w, 4, &length) || !take(w, 4) || length > w->left)
		return false;
	length = sr_record_padded(length);
	return addr & SR_LEFT_OUT && length >= 4 ? walk_left_out(w, length) : take_fixed(w, length);
}

/* Of struct sr_exposed_payload; then come addresses of pages, and values with the bytes of each. */
static void walk_exposed(struct walk *w)
{
	uint32_t pages, values;
	bool fits = take(w, 4) && take(w, 4) && take(w, 8) && take(w, 8) &&
		    take_number(w, 4, &pages) && take_number(w, 4, &values);

	while (fits && pages--)
		fits = take(w, 8);
	while (fits && values--)
		fits = walk_value(w);
}

static void walk_other(struct walk *w, uint16_t kind)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (others[i].kind != kind)
			continue;
		for (const char *c = others[i].first; *c && take(w, (uint32_t)(*c - '0')); c++)
			;
		while (w->left >= others[i].others && take(w, others[i].others))
			;
	}
}

void sr_layouts_fields(const struct sr_layouts *l, uint16_t kind, const void *payload,
		       uint32_t size, struct sr_fields *f)
{
	struct walk w = {.p = payload, .left = size, .f = f};
	uint32_t taken = 0;

	f->n = 0;
	if (kind >= SR_REC_CALL)
		walk_call(&w, l, kind - SR_REC_CALL);
	else if (kind == SR_REC_EXPOSED)
		walk_exposed(&w);
	else
		walk_other(&w, kind);
	take_rest(&w);
	for (uint32_t i = 0; i < f->n; i++)
		taken += f->width[i];
	if (taken < size)
		f->width[f->n++] = size - taken;
}
