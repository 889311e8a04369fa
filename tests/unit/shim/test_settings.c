/* SPDX-License-Identifier: BSD-2-Clause */
/* test_settings.c: the table of settings, and how the environment is read with it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/core/ranks.h"
#include "shim/core/setting.h"
#include "shim/core/settings.h"

static const struct sr_setting *const table = sr_setting_table;

/* ------------------------------------------------------------ environment */

/* What sr_say wrote. */
static char said[1024];

static int read_settings(struct sr_settings *s)
{
	int saved = dup(STDERR_FILENO), to[2], err;
	ssize_t n;

	assert_int_equal(pipe2(to, O_NONBLOCK), 0);
	dup2(to[1], STDERR_FILENO);
	err = sr_settings_read(s);
	dup2(saved, STDERR_FILENO);
	n = read(to[0], said, sizeof(said) - 1);
	said[n > 0 ? n : 0] = '\0';
	close(to[0]);
	close(to[1]);
	close(saved);
	return err;
}

static int clear(void **state)
{
	static const char *const launchers[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
						"MV2_COMM_WORLD_RANK", "GASPI_RANK", "SLURM_PROCID"};

	(void)state;
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++)
		unsetenv(launchers[i]);
	for (int i = 0; i < SR_SETTING_COUNT; i++)
		unsetenv(table[i].variable);
	for (int i = 0; i < SR_RENAMED_COUNT; i++)
		unsetenv(sr_renamed_table[i].variable);
	setenv("SREPLAY_TRACE", "/t.srec", 1);
	return 0;
}

static bool same(const struct sr_setting *s, const struct sr_settings *a,
		 const struct sr_settings *b)
{
	const char *x = (const char *)a + s->at, *y = (const char *)b + s->at;
	const char *const *t = (const void *)x, *const *u = (const void *)y;

	if (s->kind == SR_KIND_WORDS || s->kind == SR_KIND_NUMBER)
		return !memcmp(x, y, sizeof(int));
	return *t == *u || (*t && *u && !strcmp(*t, *u));
}

/* The option's parser and the variable's reader interpret a text alike. */
static void agree(const struct sr_setting *s, const char *text)
{
	struct sr_settings of_option = {0}, of_variable;

	setenv(s->variable, text, 1);
	assert_true(sr_setting_parse(s, text, &of_option));
	assert_int_equal(read_settings(&of_variable), 0);
	assert_string_equal(said, "");
	assert_true(same(s, &of_option, &of_variable));
	unsetenv(s->variable);
	setenv("SREPLAY_TRACE", "/t.srec", 1);
}

/* Both refuse the text; the reader's message names the variable, the value and what is expected. */
static void refuse(const struct sr_setting *s, const char *text)
{
	struct sr_settings read;
	char expected[SR_EXPECTED_MAX], line[256];

	setenv(s->variable, text, 1);
	assert_false(sr_setting_parse(s, text, &read));
	assert_int_equal(read_settings(&read), -EINVAL);
	sr_setting_expected(s, expected);
	snprintf(line, sizeof(line), "sreplay: %s=%s: expected %s; this process is not recorded\n",
		 s->variable, text, expected);
	assert_string_equal(said, line);
	unsetenv(s->variable);
	setenv("SREPLAY_TRACE", "/t.srec", 1);
}

static void defaults(void **state)
{
	struct sr_settings s;

	(void)state;
	for (int i = 0; i < SR_SETTING_COUNT; i++)
		if (table[i].default_text)
			agree(&table[i], table[i].default_text);
	assert_int_equal(read_settings(&s), 0);
	assert_int_equal(s.exposed, SR_REGIONS_PROTECT);
	assert_int_equal(s.tsc, SR_TSC_TRAP);
	assert_int_equal(s.threads, SR_THREADS_AUTO);
	assert_int_equal(s.clocks, SR_CLOCKS_OFF);
	assert_int_equal(s.ring_bytes, 4 << 20);
	assert_true(s.probes && s.syscall_trap);
	assert_false(s.lossy || s.allow_direct || s.record_files || s.from_start);
	assert_true(s.rank == 0 && !s.key && !s.hosts && !s.group);
}

static void words(void **state)
{
	(void)state;
	for (int i = 0; i < SR_SETTING_COUNT; i++) {
		const struct sr_setting *s = &table[i];
		bool numbered = s->kind == SR_KIND_WORDS && !strcmp(s->words[0], "off");

		if (s->kind != SR_KIND_WORDS)
			continue;
		for (int w = 0; w < SR_WORDS_MAX && s->words[w]; w++) {
			char digit[] = {(char)('0' + w), '\0'};

			agree(s, s->words[w]);
			if (numbered)
				agree(s, digit);
			else
				refuse(s, digit);
		}
		refuse(s, "");
		refuse(s, "frozen");
		refuse(s, "offon");
		refuse(s, "4");
	}
}

static void numbers(void **state)
{
	(void)state;
	for (int i = 0; i < SR_SETTING_COUNT; i++) {
		const struct sr_setting *s = &table[i];
		char text[32];

		if (s->kind != SR_KIND_NUMBER)
			continue;
		snprintf(text, sizeof(text), "%ld", s->least);
		agree(s, text);
		snprintf(text, sizeof(text), "%ld", s->most);
		agree(s, text);
		snprintf(text, sizeof(text), "%ld", s->most + 1);
		refuse(s, text);
		snprintf(text, sizeof(text), "%ld", s->least - 1);
		refuse(s, text);
		refuse(s, "");
		refuse(s, "+70000");
		refuse(s, " 70000");
		refuse(s, "70000x");
		refuse(s, "99999999999999999999999999");
	}
}

static void other_kinds(void **state)
{
	(void)state;
	agree(&table[SR_SETTING_KEY], "/a/key");
	refuse(&table[SR_SETTING_KEY], "key");
	agree(&table[SR_SETTING_HOSTS], "10.0.0.1,10.0.0.2");
	agree(&table[SR_SETTING_GROUP], "0,2-5");
	agree(&table[SR_SETTING_GROUP], "7-7");
	refuse(&table[SR_SETTING_GROUP], "1-");
	refuse(&table[SR_SETTING_GROUP], "1,");
	refuse(&table[SR_SETTING_GROUP], ",1");
	refuse(&table[SR_SETTING_GROUP], "5-2");
	refuse(&table[SR_SETTING_GROUP], "all");
	refuse(&table[SR_SETTING_GROUP], "0-1048577");
}

/* No two settings share a name. */
static void names(void **state)
{
	(void)state;
	for (int i = 0; i < SR_SETTING_COUNT; i++) {
		for (int k = 0; k < i; k++) {
			assert_string_not_equal(table[i].variable, table[k].variable);
			assert_true(!table[i].letter || table[i].letter != table[k].letter);
			assert_true(!table[i].option || !table[k].option ||
				    strcmp(table[i].option, table[k].option));
		}
	}
}

static void old_names(void **state)
{
	struct sr_settings s;
	char line[256];

	(void)state;
	for (int i = 0; i < SR_RENAMED_COUNT; i++) {
		const struct sr_renamed *old = &sr_renamed_table[i];

		setenv(old->variable, "1", 1);
		assert_int_equal(read_settings(&s), -EINVAL);
		snprintf(line, sizeof(line),
			 "sreplay: %s is now %s; this process is not recorded\n", old->variable,
			 sr_setting_variable(old->now));
		assert_string_equal(said, line);
		unsetenv("SREPLAY_TRACE");
		assert_int_equal(read_settings(&s), 0);
		assert_string_equal(said, "");
		unsetenv(old->variable);
		setenv("SREPLAY_TRACE", "/t.srec", 1);
	}
}

static void nothing_asked_for(void **state)
{
	struct sr_settings s;

	(void)state;
	setenv("SREPLAY_RING", "x", 1);
	unsetenv("SREPLAY_TRACE");
	assert_int_equal(read_settings(&s), 0);
	assert_null(s.trace);
	setenv("SREPLAY_TRACE", "", 1);
	assert_int_equal(read_settings(&s), 0);
	assert_null(s.trace);
	setenv("SREPLAY_TRACE", "t.srec", 1);
	assert_int_equal(read_settings(&s), -EINVAL);
}

static void launchers_rank(void **state)
{
	struct sr_settings s;

	(void)state;
	setenv("SLURM_PROCID", "3", 1);
	assert_int_equal(read_settings(&s), 0);
	assert_int_equal(s.rank, 3);
	setenv("OMPI_COMM_WORLD_RANK", "4", 1);
	assert_int_equal(read_settings(&s), 0);
	assert_int_equal(s.rank, 4);
	setenv("SREPLAY_RANK", "5", 1);
	assert_int_equal(read_settings(&s), 0);
	assert_int_equal(s.rank, 5);
	unsetenv("SREPLAY_RANK");
	setenv("OMPI_COMM_WORLD_RANK", "x", 1);
	assert_int_equal(read_settings(&s), -EINVAL);
	assert_non_null(strstr(said, "OMPI_COMM_WORLD_RANK=x: expected a number from 0 to"));
}

static void member(const char *group, const char *rank, bool in, int number, int members)
{
	struct sr_settings s;

	setenv("SREPLAY_GROUP", group, 1);
	setenv("SREPLAY_RANK", rank, 1);
	assert_int_equal(read_settings(&s), 0);
	assert_int_equal(s.in_group, in);
	assert_int_equal(s.member, number);
	assert_int_equal(s.members, members);
}

static void members(void **state)
{
	(void)state;
	member("", "5", true, 5, 0);
	member("0,2-5", "0", true, 0, 5);
	member("0,2-5", "2", true, 1, 5);
	member("0,2-5", "5", true, 4, 5);
	member("0,2-5", "1", false, 5, 5);
	member("5,0", "0", true, 1, 2);
	member("", "1000000", true, -1, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup(defaults, clear),
	    cmocka_unit_test_setup(words, clear),
	    cmocka_unit_test_setup(numbers, clear),
	    cmocka_unit_test_setup(other_kinds, clear),
	    cmocka_unit_test_setup(names, clear),
	    cmocka_unit_test_setup(old_names, clear),
	    cmocka_unit_test_setup(nothing_asked_for, clear),
	    cmocka_unit_test_setup(launchers_rank, clear),
	    cmocka_unit_test_setup(members, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
