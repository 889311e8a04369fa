/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/settings.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "logd/base/hex.h"
#include "logd/base/say.h"
#include "nicclock/clock.h"
#include "shim/core/ranks.h"
#include "shim/core/setting.h"
#include "shim/core/variables.h"

static int refuse(const struct sr_setting *s, const char *variable, const char *text)
{
	char expected[SR_EXPECTED_MAX];

	sr_setting_expected(s, expected);
	sr_say("%s=%s: expected %s; this process is not recorded", variable, text, expected);
	return -EINVAL;
}

/*
 * Programs write over their environment (to show another title in ps), and some settings are used long after: by a
 * process that opens a device late, or forks. In .bss, because the heap is not set up yet.
 */
static char kept[4 * PATH_MAX];
static size_t used;

static const char *keep(const char *text)
{
	size_t n = strlen(text) + 1;
	char *copy = kept + used;

	if (n > sizeof(kept) - used)
		return NULL;
	memcpy(copy, text, n);
	used += n;
	return copy;
}

static int read_setting(const struct sr_setting *s, struct sr_settings *into)
{
	const char *text = sr_variable(s->variable);

	if (!sr_setting_is_given(s, text))
		return 0;
	if (s->kind != SR_KIND_WORDS && s->kind != SR_KIND_NUMBER)
		text = keep(text);
	if (!text) {
		sr_say("%s is too long; this process is not recorded", s->variable);
		return -ENAMETOOLONG;
	}
	return sr_setting_parse(s, text, into) ? 0 : refuse(s, s->variable, text);
}

static void set_defaults(struct sr_settings *s)
{
	*s = (struct sr_settings){0};
	for (int i = 0; i < SR_SETTING_COUNT; i++)
		if (sr_setting_table[i].default_text)
			sr_setting_parse(&sr_setting_table[i], sr_setting_table[i].default_text, s);
}

static int refuse_renamed(void)
{
	for (int i = 0; i < SR_RENAMED_COUNT; i++) {
		const struct sr_renamed *old = &sr_renamed_table[i];

		if (sr_variable(old->variable)) {
			sr_say("%s is now %s; this process is not recorded", old->variable,
			       sr_setting_variable(old->now));
			return -EINVAL;
		}
	}
	return 0;
}

const char *sr_launchers_rank(void)
{
	for (size_t i = 0; i < SR_LAUNCHER_RANKS; i++)
		if (sr_variable(sr_launcher_ranks[i]))
			return sr_launcher_ranks[i];
	return NULL;
}

static int read_launchers_rank(struct sr_settings *s)
{
	const struct sr_setting *rank = &sr_setting_table[SR_SETTING_RANK];
	const char *variable = sr_launchers_rank();

	s->of_job = variable;
	if (!variable || sr_variable(rank->variable) || sr_setting_parse(rank, sr_variable(variable), s))
		return 0;
	return refuse(rank, variable, sr_variable(variable));
}

/* Members are numbered in the order of the list. */
static void find_member(struct sr_settings *s)
{
	const char *list = s->group;
	long first, last;

	s->in_group = !list;
	s->member = s->in_group ? s->rank : 0;
	while (list && *list && sr_ranks_next(&list, &first, &last)) {
		if (!s->in_group && s->rank >= first && s->rank <= last) {
			s->in_group = true;
			s->member = s->members + (int)(s->rank - first);
		}
		s->members += (int)(last - first + 1);
	}
	if (list && !s->in_group)
		s->member = s->members;
	if (s->member >= SR_CLOCK_MEMBERS)
		s->member = -1;
}

/* A session that is not in our format counts as none. */
static void read_session(struct sr_settings *s)
{
	const char *text = sr_variable(SR_ENV_SESSION);

	if (text && !sr_from_hex(text, s->session, sizeof(s->session)))
		memset(s->session, 0, sizeof(s->session));
}

int sr_settings_read(struct sr_settings *s)
{
	const char *trace = sr_variable(sr_setting_variable(SR_SETTING_TRACE));

	set_defaults(s);
	used = 0;
	if (!trace || !*trace)
		return 0;
	if (refuse_renamed())
		return -EINVAL;
	for (int i = 0; i < SR_SETTING_COUNT; i++)
		if (read_setting(&sr_setting_table[i], s))
			return -EINVAL; /* said */
	/* The clocks' directory says which peers are recorded. */
	if (s->order && s->clocks == SR_CLOCKS_OFF)
		s->clocks = SR_CLOCKS_ON;
	if (read_launchers_rank(s))
		return -EINVAL;
	find_member(s);
	read_session(s);
	return 0;
}
