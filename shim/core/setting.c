/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/setting.h"

#include <limits.h>
#include <string.h>

#include "logd/base/decimal.h"
#include "shim/core/ranges.h"
#include "shim/core/ranks.h"
#include "shim/core/settings.h"

/* What each kind in settings.def sets in a row of the table. */
#define KIND_FLAG          .kind = SR_KIND_WORDS, .words = {"off", "on"}
#define KIND_FLAG_OR(word) .kind = SR_KIND_WORDS, .words = {"off", "on", word}
#define KIND_SWITCH        .kind = SR_KIND_WORDS, .words = {"off", "on"}, .has_argument = true
#define KIND_CHOICE(...)   .kind = SR_KIND_WORDS, .words = {__VA_ARGS__}, .has_argument = true
#define KIND_NUMBER(name, from, to)                                                                \
	.kind = SR_KIND_NUMBER, .unit = name, .least = from, .most = to, .has_argument = true
#define KIND_PATH       .kind = SR_KIND_PATH, .has_argument = true
#define KIND_RANKS      .kind = SR_KIND_RANKS, .has_argument = true
#define KIND_RANGES     .kind = SR_KIND_RANGES, .has_argument = true
#define KIND_TEXT(what) .kind = SR_KIND_TEXT, .has_argument = true

#define RENAMED(...)
#define SETTING(name, field, kind, otherwise, env, short_form, long_form, called, help, more)      \
	[SR_SETTING_##name] = {KIND_##kind,                                                        \
			       .variable = env,                                                    \
			       .option = long_form,                                                \
			       .letter = short_form,                                               \
			       .argument = called,                                                 \
			       .default_text = otherwise,                                          \
			       .at = offsetof(struct sr_settings, field)},
const struct sr_setting sr_setting_table[SR_SETTING_COUNT] = {
#include "shim/core/settings.def"
};
#undef SETTING
#undef RENAMED

#define SETTING(...)
#define RENAMED(long_form, short_form, env, name, about)                                           \
	{.option = long_form,                                                                      \
	 .letter = short_form,                                                                     \
	 .variable = env,                                                                          \
	 .now = SR_SETTING_##name,                                                                 \
	 .note = about},
const char *const sr_launcher_ranks[SR_LAUNCHER_RANKS] = {
    "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "GASPI_RANK", "SLURM_PROCID",
};

const struct sr_renamed sr_renamed_table[SR_RENAMED_COUNT] = {
#include "shim/core/settings.def"
};
#undef SETTING
#undef RENAMED

/* ------------------------------------------------------------------ values */

static bool parse_number(const char *text, long least, long most, long *value)
{
	return sr_decimal(&text, most, value) && !*text && *value >= least;
}

static bool is_off_or_on(const struct sr_setting *s)
{
	return !strcmp(s->words[0], "off");
}

static size_t count_words(const struct sr_setting *s)
{
	size_t n = 0;

	while (n < SR_WORDS_MAX && s->words[n])
		n++;
	return n;
}

static bool parse_word(const struct sr_setting *s, const char *text, long *value)
{
	size_t n = count_words(s);

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(text, s->words[i])) {
			*value = (long)i;
			return true;
		}
	}
	return is_off_or_on(s) && parse_number(text, 0, (long)n - 1, value);
}

static bool is_value(const struct sr_setting *s, const char *text, long *number)
{
	switch (s->kind) {
	case SR_KIND_WORDS:
		return parse_word(s, text, number);
	case SR_KIND_NUMBER:
		return parse_number(text, s->least, s->most, number);
	case SR_KIND_PATH:
		return text[0] == '/';
	case SR_KIND_RANKS:
		return sr_ranks_is_list(text);
	case SR_KIND_RANGES:
		return sr_ranges_is_list(text);
	case SR_KIND_TEXT:
		return true;
	}
	return false;
}

bool sr_setting_is_given(const struct sr_setting *s, const char *text)
{
	return text && (*text || s->kind == SR_KIND_WORDS || s->kind == SR_KIND_NUMBER);
}

bool sr_setting_parse(const struct sr_setting *s, const char *text, struct sr_settings *into)
{
	char *field = (char *)into + s->at;
	long number = 0;

	if (!is_value(s, text, &number))
		return false;
	if (s->kind == SR_KIND_WORDS || s->kind == SR_KIND_NUMBER)
		*(int *)(void *)field = (int)number;
	else
		*(const char **)(void *)field = text;
	return true;
}

bool sr_setting_is_on(const char *text)
{
	return text && (!strcmp(text, "on") || !strcmp(text, "1"));
}

/* ---------------------------------------------------------------- messages */

static void append(char text[SR_EXPECTED_MAX], const char *more)
{
	size_t n = strlen(text);

	for (; *more && n < SR_EXPECTED_MAX - 1; more++)
		text[n++] = *more;
	text[n] = '\0';
}

static void append_number(char text[SR_EXPECTED_MAX], long number)
{
	char digits[24], *p = digits + sizeof(digits) - 1;

	*p = '\0';
	do
		*--p = (char)('0' + number % 10);
	while (number /= 10);
	append(text, p);
}

static void append_words(char text[SR_EXPECTED_MAX], const struct sr_setting *s)
{
	size_t n = count_words(s);

	for (size_t i = 0; i < n; i++) {
		append(text, i == 0 ? "" : i == n - 1 ? " or " : ", ");
		append(text, s->words[i]);
	}
}

void sr_setting_expected(const struct sr_setting *s, char text[SR_EXPECTED_MAX])
{
	text[0] = '\0';
	switch (s->kind) {
	case SR_KIND_WORDS:
		append_words(text, s);
		break;
	case SR_KIND_NUMBER:
		append(text, "a number ");
		append(text, *s->unit ? "of " : "");
		append(text, s->unit);
		append(text, *s->unit ? " from " : "from ");
		append_number(text, s->least);
		append(text, " to ");
		append_number(text, s->most);
		break;
	case SR_KIND_PATH:
		append(text, "an absolute path");
		break;
	case SR_KIND_RANKS:
		append(text, "a list of ranks such as 0,2-5");
		break;
	case SR_KIND_RANGES:
		append(text, "at most 64 ranges such as 0x6a0000000000+4096");
		break;
	case SR_KIND_TEXT:
		break;
	}
}
