/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/command/guess.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "replay/print/say.h"

#define WORD_MAX    32
#define OPTIONS_MAX 128

static size_t min3(size_t a, size_t b, size_t c)
{
	a = a < b ? a : b;
	return a < c ? a : c;
}

/* Letters to be changed, left out, added, or exchanged with their neighbour. */
static size_t distance(const char *a, const char *b)
{
	size_t n = strlen(a), m = strlen(b), d[WORD_MAX + 1][WORD_MAX + 1];

	if (n > WORD_MAX || m > WORD_MAX)
		return WORD_MAX;
	for (size_t i = 0; i <= n; i++)
		for (size_t k = 0; k <= m; k++) {
			if (!i || !k) {
				d[i][k] = i + k;
				continue;
			}
			d[i][k] = min3(d[i - 1][k] + 1, d[i][k - 1] + 1,
				       d[i - 1][k - 1] + (a[i - 1] != b[k - 1]));
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
			    d[i - 2][k - 2] + 1 < d[i][k])
				d[i][k] = d[i - 2][k - 2] + 1;
		}
	return d[n][m];
}

const char *sr_guess(const char *word, const char *const *words, size_t n)
{
	size_t most = strlen(word) > 5 ? 2 : 1;
	const char *best = NULL;

	for (size_t i = 0; i < n; i++) {
		size_t far = words[i] ? distance(word, words[i]) : WORD_MAX;

		if (far <= most && (!best || far < most)) {
			best = words[i];
			most = far;
		}
	}
	return best;
}

static size_t list_options(const struct argp *argp, const char **names, size_t n)
{
	for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++)
		if (o->name && n < OPTIONS_MAX)
			names[n++] = o->flags & OPTION_HIDDEN ? NULL : o->name;
	for (const struct argp_child *c = argp->children; c && c->argp; c++)
		n = list_options(c->argp, names, n);
	return n;
}

/* getopt takes the beginning of a name for the name. */
static bool is_begin_of_one(const char *word, const struct argp *argp)
{
	for (const struct argp_option *o = argp->options; o && (o->name || o->key || o->doc); o++)
		if (o->name && !strncmp(o->name, word, strlen(word)))
			return true;
	for (const struct argp_child *c = argp->children; c && c->argp; c++)
		if (is_begin_of_one(word, c->argp))
			return true;
	return false;
}

/* 0, or EINVAL after a message. */
static error_t check(const struct argp *argp, const char *command, const char *argument)
{
	const char *names[OPTIONS_MAX + 2] = {"help", "usage"}, *guess;
	size_t n = list_options(argp, names, 2), length = strcspn(argument + 2, "=");
	char word[WORD_MAX + 1];

	if (!length || length > WORD_MAX)
		return 0;
	memcpy(word, argument + 2, length);
	word[length] = '\0';
	if (is_begin_of_one(word, argp) || !strncmp("help", word, length) ||
	    !strncmp("usage", word, length))
		return 0;
	guess = sr_guess(word, names, n);
	if (!guess)
		return 0; /* argp says that it does not know it */
	sr_fail("there is no option \"--%s\"; did you mean \"--%s\"? (%s --help)", word, guess,
		command);
	return EINVAL;
}

error_t sr_argp_parse(const struct argp *argp, int argc, char **argv, unsigned int flags,
		      void *input)
{
	int end = 1;

	while (end < argc && strcmp(argv[end], "--"))
		end++;
	/* Without "--" what looks like an option behind a word may be one of the command that is recorded. */
	if (end == argc && flags & ARGP_IN_ORDER)
		for (end = 1; end < argc && argv[end][0] == '-';)
			end++;
	for (int i = 1; i < end; i++)
		if (!strncmp(argv[i], "--", 2) && check(argp, argv[0], argv[i]))
			return EINVAL;
	return argp_parse(argp, argc, argv, flags, NULL, input);
}
