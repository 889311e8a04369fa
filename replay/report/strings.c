/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/report/strings.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "replay/print/json_text.h"

static size_t hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325ull;

	for (; *text; text++)
		h = (h ^ (unsigned char)*text) * 0x100000001b3ull;
	return h ^ h >> 29;
}

static size_t *slot_of(struct sr_strings *s, const char *text)
{
	size_t at = hash(text) & (s->slots_n - 1);

	while (s->slots[at] && strcmp(s->texts[s->slots[at] - 1], text))
		at = (at + 1) & (s->slots_n - 1);
	return &s->slots[at];
}

/* Twice as many slots as texts. */
static int make_room(struct sr_strings *s)
{
	size_t room = s->room ? 2 * s->room : 512;
	char **texts = realloc(s->texts, room * sizeof(*texts));
	size_t *slots = texts ? calloc(2 * room, sizeof(*slots)) : NULL;

	if (texts)
		s->texts = texts;
	if (!slots)
		return -1;
	free(s->slots);
	s->slots = slots;
	s->slots_n = 2 * room;
	s->room = room;
	for (size_t i = 0; i < s->n; i++)
		*slot_of(s, s->texts[i]) = i + 1;
	return 0;
}

size_t sr_strings_number(struct sr_strings *s, const char *text)
{
	size_t *slot;

	if (s->failed || (s->n == s->room && make_room(s))) {
		s->failed = 1;
		return 0;
	}
	slot = slot_of(s, text);
	if (*slot)
		return *slot - 1;
	s->texts[s->n] = strdup(text);
	if (!s->texts[s->n]) {
		s->failed = 1;
		return 0;
	}
	*slot = ++s->n;
	return s->n - 1;
}

void sr_strings_write(const struct sr_strings *s, FILE *out)
{
	putc('[', out);
	for (size_t i = 0; i < s->n; i++) {
		if (i)
			putc(',', out);
		sr_json_text(out, s->texts[i]);
	}
	putc(']', out);
}

void sr_strings_free(struct sr_strings *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->texts[i]);
	free(s->texts);
	free(s->slots);
	*s = (struct sr_strings){0};
}
