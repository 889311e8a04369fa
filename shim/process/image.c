/* SPDX-License-Identifier: BSD-2-Clause */
#include "shim/process/image.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "logd/base/checksum.h"
#include "logd/base/decimal.h"
#include "logd/base/hex.h"
#include "logd/base/rawsys.h"
#include "shim/core/codec.h"
#include "shim/core/setting.h"
#include "shim/core/settings.h"
#include "shim/core/variables.h"
#include "shim/memory/heap.h"

/* NUMBER,PROCESS,SNS of struct sr_image_origin, and a connection.  What stands behind it came with it. */
#define VARIABLE "SREPLAY_IMAGE"

#define PRELOAD "LD_PRELOAD"
#define LIBRARY "libsreplay_verbs.so"

/* The settings of this process, as NAME=VALUE, and the library's path: copies, as a program may
 * overwrite its environment.  */
#define SETTINGS_MAX 64
static char *settings[SETTINGS_MAX];
static size_t n_settings;
static char *library;

/* ------------------------------------------------------------------- start */

static char *copy(const char *text, size_t n)
{
	char *made = sr_alloc(n + 1);

	if (made) {
		memcpy(made, text, n);
		made[n] = 0;
	}
	return made;
}

static bool is_named(const char *entry, const char *name)
{
	size_t n = strlen(name);

	return !strncmp(entry, name, n) && entry[n] == '=';
}

/* Is it a setting of the recording, and not of this image alone? */
static bool is_setting(const char *entry)
{
	for (size_t i = 0; i < SR_LAUNCHER_RANKS; i++)
		if (is_named(entry, sr_launcher_ranks[i]))
			return true;
	return !strncmp(entry, "SREPLAY_", 8) && strncmp(entry, VARIABLE, sizeof(VARIABLE) - 1) &&
	       !is_named(entry, SR_ENV_MUST_RECORD) &&
	       !is_named(entry, sr_setting_variable(SR_SETTING_FROM_START));
}

/* The element of a list of libraries that is ours; *n: its length.  NULL: there is none. */
static const char *find_library(const char *list, size_t *n)
{
	for (const char *at = list; *at; at += *n + (at[*n] != 0)) {
		const char *slash, *end;

		*n = strcspn(at, ": ");
		end = at + *n;
		for (slash = end; slash > at && slash[-1] != '/'; slash--)
			;
		if ((size_t)(end - slash) == sizeof(LIBRARY) - 1 &&
		    !strncmp(slash, LIBRARY, sizeof(LIBRARY) - 1))
			return at;
	}
	return NULL;
}

void sr_image_keep_settings(void)
{
	for (char **at = environ; at && *at; at++) {
		size_t n;
		const char *own = is_named(*at, PRELOAD)
				      ? find_library(*at + sizeof(PRELOAD), &n)
				      : NULL;

		if (own && !library)
			library = copy(own, n);
		else if (is_setting(*at) && n_settings < SETTINGS_MAX)
			settings[n_settings++] = copy(*at, strlen(*at));
	}
}

/* What an exec passes, or has passed; 0: nothing. */
static int connection;

/* A variable that is not in our format counts as none. */
static bool parse(const char *text, struct sr_image_origin *image)
{
	char id[2 * SR_PROCESS_ID_BYTES + 1];
	long number, sns, fd;

	*image = (struct sr_image_origin){0};
	if (!text || !sr_decimal(&text, INT32_MAX, &number) || *text++ != ',' ||
	    strlen(text) < sizeof(id))
		return false;
	memcpy(id, text, sizeof(id) - 1);
	id[sizeof(id) - 1] = 0;
	text += sizeof(id) - 1;
	if (!number || !sr_from_hex(id, image->before, sizeof(image->before)) || *text++ != ',' ||
	    !sr_decimal(&text, INT64_MAX, &sns) || *text++ != ',' || !sr_decimal(&text, INT32_MAX, &fd) || *text)
		return false;
	connection = (int)fd;
	image->number = (uint32_t)number;
	image->sns = (uint64_t)sns;
	return true;
}

bool sr_image_begin(struct sr_image_origin *image)
{
	return parse(sr_variable(VARIABLE), image);
}

static void close_on_exec(bool closes)
{
	if (connection)
		sr_sys_fcntl(connection, F_SETFD, closes ? FD_CLOEXEC : 0);
}

int sr_image_connection(void)
{
	int fd = connection;

	close_on_exec(true);
	connection = 0;
	return fd;
}

void sr_image_pass_connection(int fd)
{
	connection = fd > 0 ? fd : 0;
	close_on_exec(false);
}

void sr_image_keep_connection(void)
{
	close_on_exec(true);
	connection = 0;
}

/* Programs that do not ask libc look for the auxiliary vector behind the environment: it begins with entries to ignore. */
void sr_image_end_environment(void)
{
	char **at = environ;

	while (at && *at && !is_named(*at, VARIABLE))
		at++;
	if (!at || !*at)
		return;
	for (*at++ = NULL; *at; at++)
		*at = (char *)AT_IGNORE;
	*at = (char *)AT_IGNORE;
}

/* -------------------------------------------------------------------- exec */

static const char *find(char *const *envp, const char *entry)
{
	size_t n = strcspn(entry, "=") + 1;
	const char *found = NULL;

	/* The dynamic linker takes the last one. */
	for (; envp && *envp; envp++)
		if (!strncmp(*envp, entry, n))
			found = *envp + n;
	return found;
}

static void put_number(struct sr_buf *b, uint64_t number)
{
	char digits[20], *at = digits + sizeof(digits);

	do
		*--at = (char)('0' + number % 10);
	while (number /= 10);
	sr_put_raw(b, at, (size_t)(digits + sizeof(digits) - at));
}

static void put_text(struct sr_buf *b, const char *text)
{
	sr_put_raw(b, text, strlen(text));
}

static void put_end(struct sr_buf *b)
{
	sr_put_raw(b, "", 1);
}

/* The strings that are added, each with its 0. */
static size_t put_added(struct sr_buf *b, char *const *envp, const struct sr_image_origin *next)
{
	char id[2 * SR_PROCESS_ID_BYTES + 1];
	const char *preload = find(envp, PRELOAD "=");
	size_t n, count = 1;

	sr_to_hex(id, next->before, sizeof(next->before));
	put_text(b, VARIABLE "=");
	put_number(b, next->number);
	put_text(b, ",");
	put_text(b, id);
	put_text(b, ",");
	put_number(b, next->sns);
	put_text(b, ",");
	put_number(b, (uint64_t)connection);
	put_end(b);
	for (size_t i = 0; i < n_settings; i++) {
		if (!settings[i] || find(envp, settings[i]))
			continue;
		put_text(b, settings[i]);
		put_end(b);
		count++;
	}
	if (library && !(preload && find_library(preload, &n))) {
		put_text(b, PRELOAD "=");
		put_text(b, library);
		put_text(b, preload && *preload ? ":" : "");
		put_text(b, preload ? preload : "");
		put_end(b);
		count++;
	}
	/* Whole entries of the auxiliary vector take their place. */
	if (count % 2) {
		put_text(b, VARIABLE "_END=");
		put_end(b);
		count++;
	}
	return count;
}

static size_t length(char *const *strings)
{
	size_t n = 0;

	while (strings && strings[n])
		n++;
	return n;
}

char **sr_image_environment(char *const *envp, const struct sr_image_origin *next)
{
	struct sr_buf added = {0};
	const size_t n = length(envp), count = put_added(&added, envp, next);
	char **made, *text;

	made = added.p ? sr_alloc((n + count + 1) * sizeof(*made) + added.len) : NULL;
	if (made) {
		text = (char *)(made + n + count + 1);
		memcpy(text, added.p, added.len);
		for (size_t i = 0; i < n; i++)
			made[i] = envp[i];
		for (size_t i = 0; i < count; i++, text += strlen(text) + 1)
			made[n + i] = text;
		made[n + count] = NULL;
	}
	sr_free(added.p);
	return made;
}

/* Not from this process's LD_PRELOAD, in which env(1) has already put the other one. */
static const char *own_library(void)
{
	Dl_info self;

	return dladdr((void *)own_library, &self) ? self.dli_fname : "";
}

static bool names_trace(char *const *envp)
{
	for (; *envp; envp++)
		if (is_named(*envp, sr_setting_variable(SR_SETTING_TRACE)))
			return true;
	return false;
}

size_t sr_image_preload_room(char *const *envp)
{
	const char *preload = find(envp, PRELOAD "=");
	size_t n;

	if (!preload || find_library(preload, &n) || !names_trace(envp))
		return 0;
	return (length(envp) + 1) * sizeof(*envp) + sizeof(PRELOAD "=:") + strlen(own_library()) + strlen(preload);
}

char **sr_image_preload(char *const *envp, void *room)
{
	const char *preload = find(envp, PRELOAD "=");
	size_t n = length(envp);
	char **made = room, *text = (char *)(made + n + 1);

	/* The last one counts; what stands before it is the program's. */
	for (size_t i = 0; i <= n; i++)
		made[i] = i < n && envp[i] + sizeof(PRELOAD) == preload ? text : envp[i];
	text = stpcpy(text, PRELOAD "=");
	text = stpcpy(text, own_library());
	text = stpcpy(text, *preload ? ":" : "");
	stpcpy(text, preload);
	return made;
}

static void put_count(struct sr_buf *b, char *const *strings)
{
	put_number(b, length(strings));
	put_end(b);
}

static void put_checksum(struct sr_buf *b, char *const *strings)
{
	char text[2 * sizeof(uint64_t) + 1];
	uint64_t sum = 0;

	for (; strings && *strings; strings++)
		sum = sr_checksum(*strings, strlen(*strings) + 1, sum);
	sr_to_hex(text, &sum, sizeof(sum));
	sr_put_raw(b, text, sizeof(text));
}

void sr_image_put(struct sr_buf *b, const char *path, char *const *argv, char *const *envp)
{
	put_text(b, path);
	put_end(b);
	put_count(b, argv);
	for (; argv && *argv; argv++)
		sr_put_raw(b, *argv, strlen(*argv) + 1);
	put_count(b, envp);
	put_checksum(b, envp);
}

uint64_t sr_image_event(const void *rest, size_t size)
{
	const char *text = rest;
	long event;

	return size && !text[size - 1] && sr_decimal(&text, LONG_MAX, &event) ? (uint64_t)event : 0;
}

void sr_image_put_event(struct sr_buf *b, uint64_t event)
{
	if (!event)
		return;
	put_number(b, event);
	put_end(b);
}
