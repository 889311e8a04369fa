/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/core/variables.h"

#include <string.h>
#include <unistd.h>

static char **find(const char *name)
{
	size_t n = strlen(name);

	for (char **at = environ; at && *at; at++)
		if (!strncmp(*at, name, n) && (*at)[n] == '=')
			return at;
	return NULL;
}

const char *sr_variable(const char *name)
{
	char **at = find(name);

	return at ? *at + strlen(name) + 1 : NULL;
}

void sr_forget_variable(const char *name)
{
	char **at;

	while ((at = find(name)))
		for (; *at; at++)
			at[0] = at[1];
}
