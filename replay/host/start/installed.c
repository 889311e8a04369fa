/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/installed.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay/print/say.h"

const char *sr_installed_self(void)
{
	static char self[PATH_MAX];

	if (!self[0] && readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
		self[0] = '\0';
	return self;
}

bool sr_installed_has_proc(void)
{
	if (!sr_installed_self()[0])
		sr_fail("cannot read /proc/self/exe (%s): sreplay needs /proc", strerror(errno));
	return sr_installed_self()[0];
}

static bool find(char *path, size_t size, const char *what, const char *const places[])
{
	char self[PATH_MAX], candidate[2 * PATH_MAX];
	const char *dir;

	if (!sr_installed_has_proc())
		return false;
	snprintf(self, sizeof(self), "%s", sr_installed_self());
	dir = dirname(self);
	for (size_t i = 0; places[i]; i++) {
		char real[PATH_MAX];

		snprintf(candidate, sizeof(candidate), "%s/%s", dir, places[i]);
		if (access(candidate, R_OK) || !realpath(candidate, real) || strlen(real) >= size)
			continue;
		memcpy(path, real, strlen(real) + 1);
		return true;
	}
	sr_fail("%s is not where it was installed or built: looked for %s/%s", what, dir,
		places[0]);
	return false;
}

bool sr_find_shim(char *path, size_t size)
{
	static const char *const places[] = {
	    "../" SREPLAY_LIBDIR "/libsreplay_verbs.so",
	    "../shim/libsreplay_verbs.so", /* build tree */
	    NULL,
	};

	return find(path, size, "libsreplay_verbs.so", places);
}

bool sr_find_daemon(char *path, size_t size)
{
	static const char *const places[] = {
	    "sreplay-logd",
	    "../logd/sreplay-logd", /* build tree */
	    NULL,
	};

	return find(path, size, "sreplay-logd", places);
}

bool sr_find_gdb_commands(char *path, size_t size)
{
	static const char *const places[] = {
	    "../" SREPLAY_DATADIR "/sreplay/gdb/sreplay.py",
	    "gdb/sreplay.py", /* build tree */
	    NULL,
	};

	return find(path, size, "the commands for gdb (sreplay.py)", places);
}
