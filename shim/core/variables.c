/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/variables.h"

#include <unistd.h>

#include "shim/core/plain_text.h"

/* The value of the variable, or NULL. */
static char *find(const char *name)
{
	const char *behind = NULL;

	for (char **at = environ; at && *at && !(behind && *behind == '='); at++)
		behind = sr_plain_behind(*at, name);
	return behind && *behind == '=' ? (char *)behind + 1 : NULL;
}

const char *sr_variable(const char *name)
{
	return find(name);
}

void sr_switch_off_variable(const char *name)
{
	/* Of the same length: the strings lie one behind the other, and a replay has them so. */
	for (char *c = find(name); c && *c; c++)
		*c = '0';
}
