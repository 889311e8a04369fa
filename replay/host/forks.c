/* SPDX-License-Identifier: BSD-2-Clause */
#include "replay/host/forks.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "logd/base/decimal.h"
#include "logd/trace/format.h"
#include "replay/print/say.h"

static json_int_t number_of(const struct sr_forks *f, size_t i, const char *name)
{
	return json_integer_value(json_object_get(sr_trace_process(f->trace[i], f->rank[i]), name));
}

/* Takes the last component off the path; NULL: there is none. */
static const char *cut(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return NULL;
	*slash = 0;
	return slash + 1;
}

/* DIR/rank-N/child-K.srec or DIR/rank-N/image-I/child-K.srec: DIR, and I. */
static bool find_parent(const char *dir, char parent[PATH_MAX], uint32_t *image)
{
	const char *name;

	*image = 0;
	if (!realpath(dir, parent) || !cut(parent))
		return false;
	name = cut(parent);
	if (name && sscanf(name, SR_IMAGE_DIR, image) == 1)
		name = cut(parent);
	return name && !strncmp(name, "rank-", 5);
}

static bool is_parent(const struct sr_trace *parent, int32_t rank, const struct sr_forks *f)
{
	const char *id = json_string_value(json_object_get(sr_trace_process(parent, rank), "process"));
	const char *wanted = json_string_value(json_object_get(sr_trace_process(f->trace[0], f->rank[0]), "parent"));

	return id && wanted && !strcmp(id, wanted);
}

/* In front of the others. */
static bool open_parent(struct sr_forks *f)
{
	int32_t rank = sr_trace_recorded_rank(f->trace[0], f->rank[0]);
	char dir[PATH_MAX];
	struct sr_trace *t;
	struct sr_error err;
	uint32_t image;

	if (f->n > SR_REPLAY_FORKS)
		return !sr_fail("%s: more than %d processes forked each other", f->dir[0], SR_REPLAY_FORKS);
	if (!find_parent(f->dir[0], dir, &image))
		return !sr_fail("%s is the trace of a child, and belongs into the directory of its "
				"parent's rank, as it was recorded",
				f->dir[0]);
	if (sr_trace_open(&t, dir, &err) || sr_trace_choose_image(t, rank, image, &err))
		return !sr_fail("%s is the trace of a child, and its parent's is missing: %s", f->dir[0],
				err.text);
	if (!is_parent(t, rank, f)) {
		sr_trace_close(t);
		return !sr_fail("rank %d of %s is not the parent of the process of %s", rank, dir,
				f->dir[0]);
	}
	memmove(f->trace + 1, f->trace, f->n * sizeof(f->trace[0]));
	memmove(f->rank + 1, f->rank, f->n * sizeof(f->rank[0]));
	memmove(f->dir + 1, f->dir, f->n * sizeof(f->dir[0]));
	f->trace[0] = t;
	f->rank[0] = rank;
	memcpy(f->dir[0], dir, sizeof(dir));
	f->n++;
	return true;
}

bool sr_forks_open(struct sr_forks *f, struct sr_trace *t, int32_t rank)
{
	f->n = 1;
	f->trace[0] = t;
	f->rank[0] = rank;
	snprintf(f->dir[0], sizeof(f->dir[0]), "%s", sr_trace_rank_dir(t, rank));
	while (number_of(f, 0, "child"))
		if (!open_parent(f))
			return false;
	return true;
}

void sr_forks_close(struct sr_forks *f)
{
	for (size_t i = 0; i + 1 < f->n; i++)
		sr_trace_close(f->trace[i]);
	f->n = 0;
}

void sr_forks_fill(const struct sr_forks *f, struct sr_replay_fork *forks)
{
	for (size_t i = 1; i < f->n; i++)
		forks[i - 1] = (struct sr_replay_fork){
		    .number = (uint32_t)number_of(f, i, "child"),
		    .thread = (uint32_t)number_of(f, i, "forked_by"),
		    .sn = sr_trace_sns_before(f->trace[i], f->rank[i]),
		    .pid = (int32_t)number_of(f, i, "pid"),
		};
}

static bool is_directory(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* Adds the child's directory to that of its parent; in which image it was forked is not said. */
static bool add_child(char path[PATH_MAX], int32_t rank, uint32_t child)
{
	size_t n = strlen(path);

	for (uint32_t image = 0; image < SR_IMAGES_MAX; image++) {
		int m = snprintf(path + n, PATH_MAX - n, "/rank-%d", rank);

		if (image)
			m += snprintf(path + n + m, PATH_MAX - n - (size_t)m, "/" SR_IMAGE_DIR, image);
		if (!is_directory(path))
			break;
		snprintf(path + n + m, PATH_MAX - n - (size_t)m, "/" SR_CHILD_DIR, child);
		if (is_directory(path))
			return true;
	}
	return false;
}

bool sr_forks_find(char path[PATH_MAX], const char *dir, const char *name, int32_t *rank)
{
	const char *at = name;
	long number;

	if (strlen(dir) > PATH_MAX / 2 || strlen(name) > 128 || !sr_decimal(&at, INT32_MAX, &number))
		return !sr_fail("%s is not a rank, nor a child of one, as in 3/1", name);
	*rank = (int32_t)number;
	snprintf(path, PATH_MAX, "%s", dir);
	while (*at == '/') {
		at++;
		if (!sr_decimal(&at, INT32_MAX, &number) || !number)
			return !sr_fail("%s is not a child of a rank, as in 3/1", name);
		if (!add_child(path, *rank, (uint32_t)number))
			return !sr_fail("%s has no recorded process %.*s: sreplay info %s lists the children",
					dir, (int)(at - name), name, dir);
	}
	return !*at || !sr_fail("%s is not a child of a rank, as in 3/1", name);
}
