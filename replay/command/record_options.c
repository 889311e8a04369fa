/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/record_options.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/command/guess.h"
#include "replay/command/traces.h"
#include "replay/print/say.h"
#include "shim/core/settings.h"

/* Keys of options without a letter: no characters. */
#define SETTING_KEY 0x1000
#define RENAMED_KEY 0x2000

static const char *const help[SR_SETTING_COUNT] = {
#define SETTING(name, field, kind, otherwise, env, letter, option, called, help, text)             \
	[SR_SETTING_##name] = help,
#define RENAMED(...)
#include "shim/core/settings.def"
#undef SETTING
#undef RENAMED
};

static int key_of(int setting)
{
	return sr_setting_table[setting].letter ? sr_setting_table[setting].letter
						: SETTING_KEY + setting;
}

static int renamed_key_of(int renamed)
{
	return sr_renamed_table[renamed].letter ? sr_renamed_table[renamed].letter
						: RENAMED_KEY + renamed;
}

/* Of a choice "trap|native".  Belongs to the process, as all that argp is given. */
static const char *argument_of(const struct sr_setting *s)
{
	static const char bar[] = "|";
	size_t size = 1;
	char *text;

	if (!s->has_argument || s->argument)
		return s->argument;
	for (int i = 0; i < SR_WORDS_MAX && s->words[i]; i++)
		size += strlen(s->words[i]) + strlen(bar);
	text = calloc(1, size);
	for (int i = 0; text && i < SR_WORDS_MAX && s->words[i]; i++) {
		strcat(text, i ? bar : "");
		strcat(text, s->words[i]);
	}
	return text ? text : "WORD";
}

static const char *help_of(int setting)
{
	const struct sr_setting *s = &sr_setting_table[setting];
	char *text;

	if (!s->has_argument || !s->default_text ||
	    asprintf(&text, "%s (default: %s)", help[setting], s->default_text) < 0)
		return help[setting];
	return text;
}

static void list_settings(struct argp_option *at)
{
	for (int i = 0; i < SR_SETTING_COUNT; i++) {
		const struct sr_setting *s = &sr_setting_table[i];

		if (s->option)
			*at++ = (struct argp_option){.name = s->option,
						     .key = key_of(i),
						     .arg = argument_of(s),
						     .doc = help_of(i)};
	}
	for (int i = 0; i < SR_RENAMED_COUNT; i++) {
		const struct sr_renamed *old = &sr_renamed_table[i];

		*at++ = (struct argp_option){.name = old->option,
					     .key = renamed_key_of(i),
					     .arg = "WORD",
					     .flags = OPTION_HIDDEN | OPTION_ARG_OPTIONAL};
	}
}

static bool is_on(const struct sr_record_options *o, enum sr_setting_name name)
{
	return sr_setting_is_on(o->value[name] ? o->value[name]
					       : getenv(sr_setting_variable(name)));
}

bool sr_record_or_run(const struct sr_record_options *o)
{
	return is_on(o, SR_SETTING_OR_RUN);
}

bool sr_record_is_from_start(const struct sr_record_options *o)
{
	return is_on(o, SR_SETTING_FROM_START);
}

bool sr_record_is_quiet(const struct sr_record_options *o)
{
	return is_on(o, SR_SETTING_QUIET);
}

bool sr_record_native_libc(const struct sr_record_options *o)
{
	return is_on(o, SR_SETTING_NATIVE_LIBC);
}

void sr_record_refuse(const struct sr_record_options *o)
{
	if (o->claimed)
		sr_traces_release(o->claimed);
	if (!o->command || !sr_record_or_run(o))
		exit(SR_EXIT_FAILED);
	sr_note("%s runs unrecorded (--or-run)", o->command[0]);
	unsetenv(sr_setting_variable(SR_SETTING_TRACE));
	execvp(o->command[0], o->command);
	sr_fail("cannot run %s: %m", o->command[0]);
	exit(errno == ENOENT ? 127 : 126);
}

/* The name is the option's, with its dashes, or the variable's. */
static void __attribute__((noreturn))
refuse(const struct sr_record_options *o, const struct sr_setting *s, const char *dashes, const char *name, const char *text)
{
	char expected[SR_EXPECTED_MAX];

	sr_setting_expected(s, expected);
	sr_fail("%s%s=%s: expected %s", dashes, name, text, expected);
	sr_record_refuse(o);
}

static void __attribute__((noreturn)) refuse_renamed(const struct sr_record_options *o, const struct sr_renamed *old)
{
	const struct sr_setting *now = &sr_setting_table[old->now];

	sr_fail("--%s is now --%s=%s%s%s", old->option, now->option, argument_of(now),
		old->note ? "; " : "", old->note ? old->note : "");
	sr_record_refuse(o);
}

static const char *absolute_path(const struct sr_record_options *o, const struct sr_setting *s,
				 const char *path)
{
	char *cwd, *text;

	if (!*path) {
		sr_fail("--%s: the path is empty", s->option);
		sr_record_refuse(o);
	}
	if (path[0] == '/')
		return path;
	cwd = getcwd(NULL, 0);
	if (!cwd || asprintf(&text, "%s/%s", cwd, path) < 0) {
		sr_fail("--%s=%s: the current directory is not known: %m", s->option, path);
		sr_record_refuse(o);
	}
	free(cwd);
	if (strlen(text) >= PATH_MAX) {
		sr_fail("--%s=%s: the path is too long", s->option, path);
		sr_record_refuse(o);
	}
	return text;
}

/* What the setting's variable is to have. */
static const char *value_of(const struct sr_record_options *o, const struct sr_setting *s,
			    const char *argument)
{
	struct sr_settings unused;

	if (!s->has_argument)
		return s->words[1];
	if (s->kind == SR_KIND_PATH)
		argument = absolute_path(o, s, argument);
	if (!sr_setting_parse(s, argument, &unused))
		refuse(o, s, "--", s->option, argument);
	return argument;
}

static error_t parse_setting(int key, const char *argument, struct sr_record_options *o)
{
	for (int i = 0; i < SR_SETTING_COUNT; i++) {
		if (sr_setting_table[i].option && key == key_of(i)) {
			o->value[i] = value_of(o, &sr_setting_table[i], argument);
			return 0;
		}
	}
	for (int i = 0; i < SR_RENAMED_COUNT; i++)
		if (key == renamed_key_of(i))
			refuse_renamed(o, &sr_renamed_table[i]);
	return ARGP_ERR_UNKNOWN;
}

/* A variable counts where its option is not given. */
static void check_variables(const struct sr_record_options *o)
{
	struct sr_settings unused;

	for (int i = 0; i < SR_RENAMED_COUNT; i++) {
		const struct sr_renamed *old = &sr_renamed_table[i];

		if (getenv(old->variable)) {
			sr_fail("%s is now %s", old->variable, sr_setting_variable(old->now));
			sr_record_refuse(o);
		}
	}
	for (int i = 0; i < SR_SETTING_COUNT; i++) {
		const struct sr_setting *s = &sr_setting_table[i];
		const char *text = getenv(s->variable);

		/* The trace's variable does not count: the command chooses the trace. */
		if (i != SR_SETTING_TRACE && !o->value[i] && sr_setting_is_given(s, text) &&
		    !sr_setting_parse(s, text, &unused))
			refuse(o, s, "", s->variable, text);
	}
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
	struct sr_record_options *o = state->input;

	switch (key) {
	case ARGP_KEY_ARGS:
		o->command = state->argv + state->next;
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no command to record");
		return EINVAL;
	default:
		return parse_setting(key, argument, o);
	}
}

/* A wrong option may come in front of --or-run, and ends the parsing. */
static void look_ahead(char **argv, struct sr_record_options *o)
{
	char **end = argv;

	while (*end && strcmp(*end, "--"))
		end++;
	if (!*end || !end[1])
		return;
	o->command = end + 1;
	for (; argv < end; argv++)
		if (!strcmp(*argv, "--or-run") || !strcmp(*argv, "-R"))
			o->value[SR_SETTING_OR_RUN] = "on";
}

void sr_record_options_parse(int argc, char **argv, struct sr_record_options *o)
{
	struct argp_option options[SR_SETTING_COUNT + SR_RENAMED_COUNT + 1] = {0};
	const struct argp argp = {
	    .options = options,
	    .parser = parse,
	    .args_doc = "-- COMMAND [ARGUMENT...]",
	    .doc = "Run COMMAND and record what enters it. Several of these at the same time with "
		   "the same --output and different ranks make one trace. The exit status is the "
		   "command's (128+N if signal N ended it).",
	};

	look_ahead(argv, o);
	list_settings(options);
	/* Options after the command's name are the command's. */
	if (sr_argp_parse(&argp, argc, argv, ARGP_IN_ORDER, o))
		exit(SR_EXIT_FAILED);
	check_variables(o);
}
