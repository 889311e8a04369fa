/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * setting.h: settings.def as a table, and the values that a setting may have.  The preloaded
 * library reads variables by it and `sreplay record` its options, so that both take the same.
 * Nothing in here calls malloc or stdio: a process calls it before its libraries are set up.
 */
#ifndef SHIM_CORE_SETTING_H
#define SHIM_CORE_SETTING_H

#include <stdbool.h>
#include <stddef.h>

struct sr_settings;

enum sr_setting_name {
#define SETTING(name, ...) SR_SETTING_##name,
#define RENAMED(...)
#include "shim/core/settings.def"
#undef SETTING
#undef RENAMED
	SR_SETTING_COUNT
};

enum sr_setting_kind {
	SR_KIND_WORDS,
	SR_KIND_NUMBER,
	SR_KIND_PATH,
	SR_KIND_RANKS,
	SR_KIND_TEXT,
};

#define SR_WORDS_MAX 4

struct sr_setting {
	enum sr_setting_kind kind;
	const char *variable;
	const char *option; /* NULL: none */
	char letter;
	bool has_argument;               /* the option */
	const char *argument;            /* its name; NULL: the words */
	const char *default_text;        /* NULL: none */
	const char *words[SR_WORDS_MAX]; /* as many as there are */
	const char *unit;
	long least, most;
	size_t at; /* the field, in struct sr_settings */
};

extern const struct sr_setting sr_setting_table[SR_SETTING_COUNT];

static inline const char *sr_setting_variable(enum sr_setting_name name)
{
	return sr_setting_table[name].variable;
}

/* A name that a setting had. */
struct sr_renamed {
	const char *option, *variable;
	char letter; /* of the option, where it has changed too; 0: it has not */
	enum sr_setting_name now;
	const char *note; /* on its words; NULL: none */
};

enum {
	SR_RENAMED_COUNT = 0
#define SETTING(...)
#define RENAMED(...) +1
#include "shim/core/settings.def"
#undef SETTING
#undef RENAMED
};

extern const struct sr_renamed sr_renamed_table[SR_RENAMED_COUNT];

/* Does the variable give the setting?  An empty path, list or text is none; NULL: it is not set. */
bool sr_setting_is_given(const struct sr_setting *setting, const char *text);

/* Sets the setting's field; false, and nothing is set, if it cannot have this value. */
bool sr_setting_parse(const struct sr_setting *setting, const char *text, struct sr_settings *into);

/* The values that it may have, for a message: "protect, compare or off". */
#define SR_EXPECTED_MAX 96
void sr_setting_expected(const struct sr_setting *setting, char text[SR_EXPECTED_MAX]);

/* Is a choice of off and on on by this text?  NULL is off. */
bool sr_setting_is_on(const char *text);

#endif
