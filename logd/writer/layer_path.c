/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/layer_path.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool is_overlay(const char *line)
{
	const char *end = strchr(line, '\n'), *type = strstr(line, " - ");

	return type && (!end || type < end) && !strncmp(type, " - overlay ", 11);
}

/* The last mount that fits is on top of the others. */
bool layer_path(const char *mounts, const char *path, char found[PATH_MAX])
{
	char place[PATH_MAX], candidate[2 * PATH_MAX];
	bool is_found = false;

	if (!mounts || !access(path, F_OK))
		return false;
	for (const char *line = mounts; *line; line = strchr(line, '\n') + 1) {
		if (is_overlay(line) && sscanf(line, "%*s %*s %*s %*s %4095s", place) == 1 &&
		    snprintf(candidate, sizeof(candidate), "%s%s", place, path) < PATH_MAX && !access(candidate, F_OK)) {
			strcpy(found, candidate);
			is_found = true;
		}
		if (!strchr(line, '\n'))
			break;
	}
	return is_found;
}
