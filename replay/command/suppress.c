/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/suppress.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/analysis/log/grow.h"
#include "replay/command/command.h"

struct line {
	char *first, *second; /* second: NULL for none */
};

struct sr_suppressions {
	struct line *lines;
	size_t n, room;
};

static char *trim(char *text)
{
	size_t n;

	text += strspn(text, " \t");
	n = strlen(text);
	while (n && strchr(" \t\r\n", text[n - 1]))
		text[--n] = '\0';
	return text;
}

static bool keep(struct sr_suppressions *s, char *text)
{
	char *second = strstr(text, " | ");
	struct line *l;

	if (second) {
		*second = '\0';
		second = trim(second + 3);
	}
	text = trim(text);
	if (!*text || *text == '#')
		return true;
	l = sr_grow((void **)&s->lines, s->n, &s->room, sizeof(*l));
	if (!l)
		return false;
	*l = (struct line){strdup(text), second ? strdup(second) : NULL};
	s->n++;
	return l->first && (!second || l->second);
}

struct sr_suppressions *sr_suppressions_read(const char *path)
{
	struct sr_suppressions *s = calloc(1, sizeof(*s));
	FILE *f = fopen(path, "r");
	char *text = NULL;
	size_t room = 0;
	bool fine = s && f;

	if (!f)
		sr_fail("cannot read %s: %s", path, strerror(errno));
	while (fine && getline(&text, &room, f) >= 0)
		fine = keep(s, text);
	if (f && !fine)
		sr_fail("no memory left");
	free(text);
	if (f)
		fclose(f);
	if (fine)
		return s;
	sr_suppressions_free(s);
	return NULL;
}

void sr_suppressions_free(struct sr_suppressions *s)
{
	for (size_t i = 0; s && i < s->n; i++) {
		free(s->lines[i].first);
		free(s->lines[i].second);
	}
	if (s)
		free(s->lines);
	free(s);
}

static bool matches(const char *pattern, const char *class, const char *place)
{
	return !strcmp(pattern, class) || !fnmatch(pattern, place, 0);
}

bool sr_is_suppressed(const struct sr_suppressions *s, const char *class, const char *place, const char *other_place)
{
	for (size_t i = 0; s && i < s->n; i++) {
		const struct line *l = &s->lines[i];
		bool is_one = matches(l->first, class, place), is_other = matches(l->first, class, other_place);

		if (!l->second ? is_one || is_other
			       : (is_one && matches(l->second, class, other_place)) ||
				     (is_other && matches(l->second, class, place)))
			return true;
	}
	return false;
}
