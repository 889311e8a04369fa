/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * setting.h: settings.def as a table, and the values that a setting may have. The preloaded
 * library reads variables with it and `sreplay record` its options, so that both accept the same.
 * Nothing here calls malloc or stdio, because a process calls it before its libraries are set up.
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
	SR_KIND_RANGES,
	SR_KIND_TEXT,
};

#define SR_WORDS_MAX 4

struct sr_setting {
	enum sr_setting_kind kind;
	const char *variable;
	const char *option; /* NULL: none */
	char letter;
	bool has_argument;               /* the option has one */
	const char *argument;            /* the argument's name; NULL: the words */
	const char *default_text;        /* NULL: none */
	const char *words[SR_WORDS_MAX]; /* NULL after the last one */
	const char *unit;
	long least, most;
	size_t at; /* the field, in struct sr_settings */
};

extern const struct sr_setting sr_setting_table[SR_SETTING_COUNT];

static inline const char *sr_setting_variable(enum sr_setting_name name)
{
	return sr_setting_table[name].variable;
}

/* Variables in which launchers give the rank of a process, the most specific first. */
#define SR_LAUNCHER_RANKS 6
extern const char *const sr_launcher_ranks[SR_LAUNCHER_RANKS];

/* A former name of a setting. */
struct sr_renamed {
	const char *option, *variable;
	char letter; /* the option's letter if it has changed too; 0: it has not */
	enum sr_setting_name now;
	const char *note; /* about the words; NULL: none */
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

/*
 * Does this text give the setting a value? NULL (not set) does not, nor does an empty path,
 * list or text.
 */
bool sr_setting_is_given(const struct sr_setting *setting, const char *text);

/*
 * Sets the setting's field. If the setting cannot have this value, returns false and sets nothing.
 */
bool sr_setting_parse(const struct sr_setting *setting, const char *text, struct sr_settings *into);

/* Lists the possible values for a message: "protect, compare or off". */
#define SR_EXPECTED_MAX 96
void sr_setting_expected(const struct sr_setting *setting, char text[SR_EXPECTED_MAX]);

/* Does this text switch an off/on choice on? NULL means off. */
bool sr_setting_is_on(const char *text);

#endif
