/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/start/trust.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/trace/seal.h"
#include "replay/host/start/confine.h"
#include "replay/print/say.h"

static bool is_own(const struct sr_trace *t, int32_t rank)
{
	char path[PATH_MAX];
	bool own;
	int fd;

	sr_trace_rank_path(t, rank, NULL, path, sizeof(path));
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	own = fd >= 0 && sr_seal_holds(fd);
	if (fd >= 0)
		close(fd);
	return own;
}

/* The seal covers what the trace says, not the files that are packed in it. */
static const char *doubt(const struct sr_trace *t, int32_t rank, bool packed)
{
	if (packed)
		return "needs files that are packed in the trace, since the installed ones are not "
		       "those that were recorded";
	return is_own(t, rank) ? NULL
			       : "was not recorded by this user on this machine, or is a copy";
}

enum sr_trust sr_trust_of(const struct sr_trace *t, const char *dir, int32_t rank, bool has_consent,
			  bool packed)
{
	const char *obstacle, *why = has_consent ? NULL : doubt(t, rank, packed);

	if (!why)
		return SR_TRUST_FULLY;
	obstacle = sr_confine_obstacle();
	if (obstacle) {
		sr_fail("rank %s of %s %s; its program cannot be run in a sandbox (%s); if you trust who made the "
			"trace, give --no-sandbox",
			sr_trace_rank_name(t, rank), dir, why, obstacle);
		return SR_TRUST_REFUSED;
	}
	sr_note("rank %s %s: its program runs in a sandbox, without network, and changes nothing "
		"(--no-sandbox runs it without)",
		sr_trace_rank_name(t, rank), why);
	return SR_TRUST_CONFINED;
}

/* ---- libraries that the environment names ---- */

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* libx.so.1 may be a link to libx.so.1.14.0: as far as the first ".so". */
static bool is_same_library(const char *a, const char *b)
{
	const char *end = strstr(a, ".so");
	size_t n = end ? (size_t)(end - a) : strlen(a);

	return !strncmp(a, b, n) && (!b[n] || b[n] == '.');
}

static bool is_same_file(const char *a, const char *b)
{
	struct stat first, second;

	return !stat(a, &first) && !stat(b, &second) && first.st_dev == second.st_dev &&
	       first.st_ino == second.st_ino;
}

/*
 * A path must lead to a recorded file.  A bare name, which the linker searches, and one with a token
 * ($LIB) must have a recorded file's name.
 */
static bool is_recorded(const struct sr_recorded *r, const char *name)
{
	bool is_path = name[0] == '/' && !strchr(name, '$'), found = false;
	const json_t *object;
	size_t i;

	json_array_foreach(json_object_get(r->json, "objects"), i, object)
	{
		char *path = sr_trace_bytes(json_object_get(object, "path"), NULL);

		found = found ||
			(path && (is_path ? is_same_file(name, path)
					  : is_same_library(base_of(name), base_of(path))));
		free(path);
	}
	return found;
}

/* What was not there when it was recorded, and is not there now, does nothing. */
static bool is_absent(const struct sr_recorded *r, const char *name)
{
	char path[PATH_MAX];

	if (strchr(name, '$') || !strchr(name, '/'))
		return false;
	snprintf(path, sizeof(path), "%s%s%s", name[0] == '/' ? "" : r->cwd,
		 name[0] == '/' ? "" : "/", name);
	return access(path, F_OK) != 0;
}

static bool check_list(const struct sr_recorded *r, const char *variable, const char *list)
{
	char *names = strdup(list), *rest = names, *name;
	bool good = names != NULL;

	while (good && (name = strsep(&rest, ": "))) {
		if (!*name || is_recorded(r, name) || is_absent(r, name))
			continue;
		good = false;
		sr_fail("%s has %s, which is not among the files that the recorded program used: "
			"replay needs the same ones",
			variable, name);
	}
	free(names);
	return good;
}

bool sr_trust_check_environment(const struct sr_recorded *r)
{
	static const char *const variables[] = {"LD_PRELOAD", "LD_AUDIT"};

	for (char **at = r->env; *at; at++) {
		for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
			size_t n = strlen(variables[i]);

			if (!strncmp(*at, variables[i], n) && (*at)[n] == '=' &&
			    !check_list(r, variables[i], *at + n + 1))
				return false;
		}
	}
	return true;
}
