/* SPDX-License-Identifier: BSD-2-Clause */
/* The directory of a trace: manifest, ranks, what each rank says of itself. */
#include "logd/trace/read_trace.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "logd/base/hex.h"
#include "logd/trace/format.h"
#include "logd/trace/safe_file.h"

struct rank {
	int32_t number;
	int32_t recorded; /* its number in its files; another one if it is adopted */
	char *dir;        /* of the trace that it is adopted from; NULL: this trace's */
	uint32_t images, image; /* how many there are, and which is read */
	size_t values;          /* in this image's JSON */
	char child[64]; /* of a process that a recorded one has forked: "1", or of that one "1/2" */
	char name[80];
	char label[104];
	uint8_t process_id[16];
	json_t *process;
	char *schema;
	size_t schema_size;
	uint32_t *threads;
	size_t n_threads;
};

/*
 * More than any recording has: a trace of a stranger may not fill the memory.  Values are those of
 * all ranks together.
 */
#define MANIFEST_MAX (1 << 20)
#define PROCESS_MAX  (32 << 20)
#define SCHEMA_MAX   (8 << 20)
#define VALUES_MAX   (16 << 20)

struct sr_trace {
	char *dir;
	size_t values_left;
	struct rank *ranks;
	size_t n_ranks;
};

int sr_error_set(struct sr_error *err, int code, const char *format, ...)
{
	va_list args;

	if (!err)
		return code;
	va_start(args, format);
	vsnprintf(err->text, sizeof(err->text), format, args);
	va_end(args);
	return code;
}

const char *sr_trace_dir(const struct sr_trace *t)
{
	return t->dir;
}

/* ---- names in directories ---- */

/* Is name prefix + decimal number + suffix?  No signs, no leading zeros, at most 2^31 - 1. */
static bool parse_name(const char *name, const char *prefix, const char *suffix, uint32_t *number)
{
	size_t length = strlen(prefix);
	char *end;
	long n;

	if (strncmp(name, prefix, length))
		return false;
	name += length;
	if (*name < '0' || *name > '9' || (name[0] == '0' && name[1] >= '0' && name[1] <= '9'))
		return false;
	errno = 0;
	n = strtol(name, &end, 10);
	if (errno || n > INT32_MAX || strcmp(end, suffix))
		return false;
	*number = (uint32_t)n;
	return true;
}

static int compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

/* The numbers of all such names in a directory, ascending. */
static int list_numbers(const char *dir, const char *prefix, const char *suffix, uint32_t **numbers,
			size_t *n)
{
	DIR *d = opendir(dir);
	size_t room = 0;
	struct dirent *entry;
	uint32_t number;

	*numbers = NULL;
	*n = 0;
	if (!d)
		return -errno;
	while ((entry = readdir(d))) {
		if (!parse_name(entry->d_name, prefix, suffix, &number))
			continue;
		if (*n == room) {
			uint32_t *more = realloc(*numbers, (room = 2 * room + 8) * sizeof(number));

			if (!more) {
				closedir(d);
				return -ENOMEM;
			}
			*numbers = more;
		}
		(*numbers)[(*n)++] = number;
	}
	closedir(d);
	if (*n)
		qsort(*numbers, *n, sizeof(**numbers), compare_numbers);
	return 0;
}

/* ---- manifest ---- */

int sr_trace_check_version(const char *path, long long version, struct sr_error *err)
{
	if (version == SR_TRACE_VERSION)
		return 0;
	return sr_error_set(err, -EPROTO,
			    "%s has trace version %lld, and this sreplay reads version %d: it was "
			    "recorded by %s sreplay; record the program again, or read the trace "
			    "with the sreplay that recorded it",
			    path, version, SR_TRACE_VERSION,
			    version < SR_TRACE_VERSION ? "an earlier" : "a later");
}

static int check_manifest(const char *dir, const json_t *manifest, struct sr_error *err)
{
	const char *format = json_string_value(json_object_get(manifest, "format"));
	const json_t *version = json_object_get(manifest, "version");
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/manifest.json", dir);
	if (!format || strcmp(format, "sreplay-trace"))
		return sr_error_set(err, -EINVAL, "%s is not the manifest of an sreplay trace",
				    path);
	if (!json_is_integer(version))
		return sr_error_set(err, -EBADMSG, "%s: \"version\" is not a number", path);
	return sr_trace_check_version(path, json_integer_value(version), err);
}

static int read_manifest(const char *dir, struct sr_error *err)
{
	char path[PATH_MAX];
	size_t values = MANIFEST_MAX;
	struct sr_safe_json manifest;
	int ret;

	snprintf(path, sizeof(path), "%s/manifest.json", dir);
	if (access(path, R_OK)) {
		ret = -errno;
		if (access(dir, F_OK))
			return sr_error_set(err, ret, "there is no trace %s: %s", dir,
					    strerror(errno));
		return sr_error_set(err, ret,
				    "%s is not a trace: cannot read its manifest.json: %s", dir,
				    strerror(-ret));
	}
	if (sr_safe_json(path, MANIFEST_MAX, &values, &manifest))
		return sr_error_set(err, -EBADMSG, "%s, line %d: %s", path, manifest.line,
				    manifest.why);
	ret = check_manifest(dir, manifest.root, err);
	json_decref(manifest.root);
	return ret;
}

/* ---- ranks ---- */

char *sr_trace_bytes(const json_t *string, size_t *size)
{
	const char *hex = json_string_value(json_object_get(string, "hex"));
	size_t n = hex ? strlen(hex) / 2 : json_string_length(string);
	char *bytes;

	if (!hex && !json_is_string(string))
		return NULL;
	bytes = calloc(1, n + 1);
	if (!bytes)
		return NULL;
	if (!hex) {
		memcpy(bytes, json_string_value(string), n);
	} else if (!sr_from_hex(hex, (uint8_t *)bytes, n)) {
		free(bytes);
		return NULL;
	}
	if (size)
		*size = n;
	return bytes;
}

static int read_schema(struct sr_trace *t, struct rank *r, const char *path, struct sr_error *err)
{
	int ret = sr_safe_read(path, SCHEMA_MAX, &r->schema, &r->schema_size);

	if (!ret && sr_safe_json_values(r->schema, r->schema_size) > t->values_left)
		ret = -EFBIG;
	return ret ? sr_error_set(err, ret, "cannot read %s: %s", path, sr_safe_reason(ret)) : 0;
}

static const char *dir_of(const struct sr_trace *t, const struct rank *r)
{
	return r->dir ? r->dir : t->dir;
}

/* A link would lead out of the trace. */
static int check_rank_dir(const char *dir, struct sr_error *err)
{
	struct stat st;

	if (!lstat(dir, &st) && S_ISDIR(st.st_mode))
		return 0;
	return sr_error_set(err, -ENOTDIR, "%s is not a directory", dir);
}

static void image_path(const struct sr_trace *t, const struct rank *r, uint32_t image, char *path,
		       size_t size)
{
	int n = snprintf(path, size, "%s/rank-%d", dir_of(t, r), r->recorded);

	if (image && n > 0 && (size_t)n < size)
		snprintf(path + n, size - (size_t)n, "/" SR_IMAGE_DIR, image);
}

static void count_images(const struct sr_trace *t, struct rank *r)
{
	char path[PATH_MAX];
	struct stat st;

	for (r->images = 1; r->images < SR_IMAGES_MAX; r->images++) {
		image_path(t, r, r->images, path, sizeof(path));
		if (lstat(path, &st))
			break;
	}
}

static void forget_image(struct sr_trace *t, struct rank *r)
{
	json_decref(r->process);
	free(r->schema);
	free(r->threads);
	t->values_left += r->values;
	*r = (struct rank){.number = r->number, .recorded = r->recorded, .dir = r->dir, .images = r->images};
}

/* The numbers of children in the trace's path: a child's trace is in its parent's. */
static void name_child(const struct sr_trace *t, struct rank *r)
{
	char real[PATH_MAX];
	size_t n = 0;

	if (!realpath(dir_of(t, r), real))
		return;
	for (char *name = strtok(real, "/"); name; name = strtok(NULL, "/")) {
		uint32_t number;

		if (parse_name(name, "child-", ".srec", &number) && n < sizeof(r->child))
			n += (size_t)snprintf(r->child + n, sizeof(r->child) - n, "%s%u",
					      n ? "/" : "", number);
	}
}

static void set_names(const struct sr_trace *t, struct rank *r)
{
	if (json_object_get(r->process, "child"))
		name_child(t, r);
	snprintf(r->name, sizeof(r->name), "%d%s%s", r->recorded, r->child[0] ? "/" : "", r->child);
	snprintf(r->label, sizeof(r->label), "%s", r->name);
	if (r->images > 1)
		snprintf(r->label, sizeof(r->label), "%s image %u", r->name, r->image);
}

static int read_image(struct sr_trace *t, struct rank *r, struct sr_error *err)
{
	char dir[PATH_MAX - 32], path[PATH_MAX];
	struct sr_safe_json process;
	size_t values = t->values_left;
	const char *id;
	int ret;

	image_path(t, r, r->image, dir, sizeof(dir));
	ret = check_rank_dir(dir, err);
	if (ret)
		return ret;
	snprintf(path, sizeof(path), "%s/process.json", dir);
	if (sr_safe_json(path, PROCESS_MAX, &t->values_left, &process))
		return sr_error_set(err, -EBADMSG, "%s, line %d: %s", path, process.line,
				    process.why);
	r->process = process.root;
	r->values = values - t->values_left;
	id = json_string_value(json_object_get(r->process, "process"));
	if (!id || strlen(id) != 32 || !sr_from_hex(id, r->process_id, 16))
		return sr_error_set(err, -EBADMSG, "%s: \"process\" is not 32 hexadecimal digits",
				    path);
	snprintf(path, sizeof(path), "%s/schema.json", dir);
	ret = read_schema(t, r, path, err);
	if (ret)
		return ret;
	set_names(t, r);
	ret = list_numbers(dir, "thread-", ".srs", &r->threads, &r->n_threads);
	if (ret)
		return sr_error_set(err, ret, "cannot list %s: %s", dir, strerror(-ret));
	return 0;
}

static int read_last_image(struct sr_trace *t, struct rank *r, struct sr_error *err)
{
	count_images(t, r);
	r->image = r->images - 1;
	return read_image(t, r, err);
}

static int read_ranks(struct sr_trace *t, struct sr_error *err)
{
	uint32_t *numbers;
	int ret = list_numbers(t->dir, "rank-", "", &numbers, &t->n_ranks);

	if (!ret)
		t->ranks = calloc(t->n_ranks + 1, sizeof(*t->ranks));
	if (ret || !t->ranks) {
		ret = ret ? ret : -ENOMEM;
		t->n_ranks = 0;
		sr_error_set(err, ret, "cannot list %s: %s", t->dir, strerror(-ret));
	}
	for (size_t i = 0; i < t->n_ranks && !ret; i++) {
		t->ranks[i].number = t->ranks[i].recorded = (int32_t)numbers[i];
		ret = read_last_image(t, &t->ranks[i], err);
	}
	free(numbers);
	return ret;
}

int sr_trace_open(struct sr_trace **trace, const char *dir, struct sr_error *err)
{
	struct sr_trace *t;
	int ret;

	*trace = NULL;
	if (strlen(dir) > PATH_MAX - 64)
		return sr_error_set(err, -ENAMETOOLONG, "the trace's name is too long: %.100s...",
				    dir);
	ret = read_manifest(dir, err);
	if (ret)
		return ret;
	t = calloc(1, sizeof(*t));
	if (t) {
		t->dir = strdup(dir);
		t->values_left = VALUES_MAX;
	}
	if (!t || !t->dir) {
		free(t);
		return sr_error_set(err, -ENOMEM, "no memory to open %s", dir);
	}
	ret = read_ranks(t, err);
	if (ret) {
		sr_trace_close(t);
		return ret;
	}
	*trace = t;
	return 0;
}

static void free_rank(struct rank *r)
{
	json_decref(r->process);
	free(r->schema);
	free(r->threads);
	free(r->dir);
}

int sr_trace_adopt(struct sr_trace *t, const char *dir, int32_t rank, struct sr_error *err)
{
	struct rank *more, *r;
	int ret = read_manifest(dir, err);

	if (ret)
		return ret;
	more = realloc(t->ranks, (t->n_ranks + 2) * sizeof(*more));
	if (!more)
		return sr_error_set(err, -ENOMEM, "no memory to open %s", dir);
	t->ranks = more;
	r = &t->ranks[t->n_ranks];
	*r = (struct rank){.recorded = rank, .dir = strdup(dir)};
	r->number = t->n_ranks && r[-1].number >= SR_FIRST_ADOPTED ? r[-1].number + 1 : SR_FIRST_ADOPTED;
	ret = r->dir ? read_last_image(t, r, err) : sr_error_set(err, -ENOMEM, "no memory to open %s", dir);
	if (ret)
		free_rank(r);
	else
		t->n_ranks++;
	return ret;
}

void sr_trace_close(struct sr_trace *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->n_ranks; i++)
		free_rank(&t->ranks[i]);
	free(t->ranks);
	free(t->dir);
	free(t);
}

/* ---- what it holds ---- */

size_t sr_trace_ranks(const struct sr_trace *t)
{
	return t->n_ranks;
}

int32_t sr_trace_rank_number(const struct sr_trace *t, size_t index)
{
	return index < t->n_ranks ? t->ranks[index].number : -1;
}

static const struct rank *find_rank(const struct sr_trace *t, int32_t number)
{
	for (size_t i = 0; i < t->n_ranks; i++) {
		if (t->ranks[i].number == number)
			return &t->ranks[i];
	}
	return NULL;
}

uint32_t sr_trace_images(const struct sr_trace *t, int32_t rank)
{
	const struct rank *r = find_rank(t, rank);

	return r ? r->images : 0;
}

uint32_t sr_trace_image(const struct sr_trace *t, int32_t rank)
{
	const struct rank *r = find_rank(t, rank);

	return r ? r->image : 0;
}

const char *sr_trace_rank_name(const struct sr_trace *t, int32_t rank)
{
	const struct rank *r = find_rank(t, rank);

	return r ? r->name : "?";
}

int32_t sr_trace_recorded_rank(const struct sr_trace *t, int32_t rank)
{
	const struct rank *r = find_rank(t, rank);

	return r ? r->recorded : rank;
}

const char *sr_trace_rank_dir(const struct sr_trace *t, int32_t rank)
{
	const struct rank *r = find_rank(t, rank);

	return r ? dir_of(t, r) : t->dir;
}

const char *sr_trace_child(const struct sr_trace *t, int32_t rank)
{
	const struct rank *r = find_rank(t, rank);

	return r && r->child[0] ? r->child : NULL;
}

int sr_trace_children(const struct sr_trace *t, int32_t rank, char ***dirs, size_t *n)
{
	const struct rank *r = find_rank(t, rank);
	char path[PATH_MAX - 32];
	uint32_t *numbers;
	int ret;

	*dirs = NULL;
	*n = 0;
	if (!r)
		return -ENOENT;
	image_path(t, r, r->image, path, sizeof(path));
	ret = list_numbers(path, "child-", ".srec", &numbers, n);
	*dirs = ret ? NULL : calloc(*n + 1, sizeof(**dirs));
	for (size_t i = 0; *dirs && i < *n; i++)
		if (asprintf(&(*dirs)[i], "%s/" SR_CHILD_DIR, path, numbers[i]) < 0)
			(*dirs)[i] = NULL;
	free(numbers);
	return *dirs ? ret : -ENOMEM;
}

void sr_trace_children_free(char **dirs, size_t n)
{
	for (size_t i = 0; dirs && i < n; i++)
		free(dirs[i]);
	free(dirs);
}

const char *sr_trace_rank_label(const struct sr_trace *t, int32_t rank)
{
	const struct rank *r = find_rank(t, rank);

	return r ? r->label : "?";
}

int sr_trace_choose_image(struct sr_trace *t, int32_t rank, uint32_t image, struct sr_error *err)
{
	struct rank *r = (struct rank *)find_rank(t, rank);

	if (!r || image >= r->images)
		return sr_error_set(err, -ENOENT, "rank %s of %s has no image %u",
				    sr_trace_rank_name(t, rank), t->dir, image);
	if (r->image == image)
		return 0;
	forget_image(t, r);
	r->image = image;
	return read_image(t, r, err);
}

uint64_t sr_trace_sns_before(const struct sr_trace *t, int32_t rank)
{
	json_int_t sns =
	    json_integer_value(json_object_get(sr_trace_process(t, rank), "sns_before"));

	return sns > 0 ? (uint64_t)sns : 0;
}

void sr_trace_rank_path(const struct sr_trace *t, int32_t rank, const char *name, char *path,
			size_t size)
{
	const struct rank *r = find_rank(t, rank), none = {.recorded = rank};
	size_t n;

	image_path(t, r ? r : &none, r ? r->image : 0, path, size);
	n = strlen(path);
	if (name)
		snprintf(path + n, size - n, "/%s", name);
}

const json_t *sr_trace_process(const struct sr_trace *t, int32_t rank)
{
	const struct rank *r = find_rank(t, rank);

	return r ? r->process : NULL;
}

bool sr_trace_leaves_out(const struct sr_trace *t, int32_t rank)
{
	return json_is_true(json_object_get(json_object_get(sr_trace_process(t, rank), "extra"), "order"));
}

bool sr_trace_has_sums(const struct sr_trace *t, int32_t rank)
{
	return json_is_true(json_object_get(json_object_get(sr_trace_process(t, rank), "extra"), "sums"));
}

bool sr_trace_has_places(const struct sr_trace *t, int32_t rank)
{
	return json_is_true(json_object_get(json_object_get(sr_trace_process(t, rank), "extra"), "places"));
}

const uint8_t *sr_trace_process_id(const struct sr_trace *t, int32_t rank)
{
	const struct rank *r = find_rank(t, rank);

	return r ? r->process_id : NULL;
}

const char *sr_trace_schema(const struct sr_trace *t, int32_t rank, size_t *size)
{
	const struct rank *r = find_rank(t, rank);

	if (size)
		*size = r ? r->schema_size : 0;
	return r ? r->schema : NULL;
}

bool sr_trace_has_thread(const struct sr_trace *t, int32_t rank, uint32_t thread)
{
	const struct rank *r = find_rank(t, rank);

	for (size_t i = 0; r && i < r->n_threads; i++)
		if (r->threads[i] == thread)
			return true;
	return false;
}

size_t sr_trace_threads(const struct sr_trace *t, int32_t rank, const uint32_t **threads)
{
	const struct rank *r = find_rank(t, rank);

	*threads = r ? r->threads : NULL;
	return r ? r->n_threads : 0;
}
