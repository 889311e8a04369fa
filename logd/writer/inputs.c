/* SPDX-License-Identifier: BSD-2-Clause */
#include "logd/writer/inputs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <sreplay/trace.h>

#include "logd/base/rawsys.h"
#include "logd/service/log.h"
#include "logd/trace/file_io.h"
#include "logd/writer/file_lines.h"
#include "logd/writer/process.h"

/* A record that has been checked.  The program could change it in the ring at any time. */
struct input {
	struct sr_input_payload head;
	const char *path;
	const unsigned char *content; /* to be kept; NULL: it is not */
	uint64_t content_bytes;
};

static bool read_input(struct input *in, const struct sr_record *r, size_t size)
{
	const unsigned char *payload = (const unsigned char *)(r + 1);
	size_t left = size - sizeof(*r);

	if (left < sizeof(in->head))
		return false;
	memcpy(&in->head, payload, sizeof(in->head));
	left -= sizeof(in->head);
	if (in->head.path_bytes > left)
		return false;
	in->path = (const char *)payload + sizeof(in->head);
	left -= in->head.path_bytes;
	in->content_bytes = left;
	in->content = left ? (const unsigned char *)in->path + in->head.path_bytes : NULL;
	return !left || left == in->head.size;
}

/* ---- content ---- */

static int write_content(int trace_fd, const char *name, const struct input *in)
{
	char draft[64];
	int fd, err;

	if (!faccessat(trace_fd, name, F_OK, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (mkdirat(trace_fd, "files", 0700) && errno != EEXIST)
		return -errno;
	snprintf(draft, sizeof(draft), "files/.draft-%d-%d", (int)getpid(), (int)gettid());
	unlinkat(trace_fd, draft, 0);
	fd = openat(trace_fd, draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = write_all(fd, (const char *)in->content, in->content_bytes);
	close(fd);
	if (!err && renameat(trace_fd, draft, trace_fd, name))
		err = -errno;
	if (err)
		unlinkat(trace_fd, draft, 0);
	return err;
}

/* The name comes from the bytes, since ranks with the same input share it. */
static int keep(int trace_fd, const struct input *in, char name[64])
{
	snprintf(name, 64, "files/%016llx-%llu", (unsigned long long)XXH3_64bits(in->content, in->content_bytes),
		 (unsigned long long)in->content_bytes);
	return write_content(trace_fd, name, in);
}

/* ---- lines ---- */

/* The lines of some records, which are written together. */
struct lines {
	char *text;
	size_t size, room;
	int error; /* of the last thing that went wrong */
};

static bool make_room(struct lines *l, size_t n)
{
	size_t room = (l->size + n) * 2;
	char *more;

	if (l->size + n <= l->room)
		return true;
	more = realloc(l->text, room);
	if (!more)
		return false;
	l->text = more;
	l->room = room;
	return true;
}

/* Does JSON take these bytes as they are? */
static bool is_plain(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\')
			return false;
	return true;
}

/* What a path says that is not plain, in JSON; the caller frees it.  NULL: no memory. */
static char *path_text(const struct input *in)
{
	json_t *path = process_bytes(in->path, in->head.path_bytes);
	char *text = path ? json_dumps(path, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

	json_decref(path);
	return text;
}

/* What a line has beside its path is shorter than that. */
#define LINE_MOST 512

/*
 * Writes the line without a JSON object: a program may read very many small files.  The same file may have had other
 * content under another number.  rest: "" or more members.
 */
static int add_line(struct lines *l, const struct input *in, const char *rest)
{
	const struct sr_input_payload *h = &in->head;
	const bool plain = is_plain(in->path, h->path_bytes);
	char *text = plain ? NULL : path_text(in);
	const char *quote = plain ? "\"" : "", *path = plain ? in->path : text;
	const int path_bytes = plain ? (int)h->path_bytes : text ? (int)strlen(text) : 0;
	const size_t room = (size_t)path_bytes + LINE_MOST;

	if (!path || !make_room(l, room)) {
		free(text);
		return -ENOMEM;
	}
	l->size += (size_t)snprintf(l->text + l->size, room,
				    "{\"file\":\"%llx:%llx:%lld:%u\",\"path\":%s%.*s%s,\"size\":%llu,\"note\":%u,"
				    "\"xxh3\":\"%016llx\"%s}\n",
				    (unsigned long long)h->device, (unsigned long long)h->inode, (long long)h->changed,
				    h->note, quote, path_bytes, path, quote, (unsigned long long)h->size, h->note,
				    (unsigned long long)h->hash, rest);
	free(text);
	return 0;
}

static void take(struct lines *l, const struct inputs_place *place, const struct sr_record *r,
		 size_t size)
{
	char name[64], rest[160] = "";
	struct input in;
	int err;

	if (!read_input(&in, r, size)) {
		l->error = -EINVAL;
		return;
	}
	err = in.content ? keep(place->trace_fd, &in, name) : 0;
	if (err)
		snprintf(rest, sizeof(rest), ",\"error\":\"%s\"", strerror(-err));
	else if (in.content)
		snprintf(rest, sizeof(rest), ",\"kept\":\"%s\"", name);
	if (err)
		l->error = err;
	err = add_line(l, &in, rest);
	if (err)
		l->error = err;
}

/* ---- records ---- */

/*
 * The next of these records in a ring, from *at on, and its size as it was read once; NULL: there is
 * none, or the program has overwritten it since they were counted.
 */
static struct sr_record *next_input(unsigned char *data, size_t bytes, size_t *at, size_t *size)
{
	while (*at < bytes) {
		struct sr_record *r = (struct sr_record *)(data + *at);

		*size = __atomic_load_n(&r->size, __ATOMIC_RELAXED);
		if (*size < sizeof(*r) || *size > bytes - *at)
			return NULL;
		*at += sr_record_padded((uint32_t)*size);
		if (r->kind == SR_REC_INPUT)
			return r;
	}
	return NULL;
}

static void make_pads(unsigned char *data, size_t bytes)
{
	size_t at = 0, size;
	struct sr_record *r;

	while ((r = next_input(data, bytes, &at, &size))) {
		memset(r + 1, 0, size - sizeof(*r));
		r->kind = SR_REC_PAD;
	}
}

void inputs_take(const struct inputs_place *place, void *records, size_t bytes)
{
	unsigned char *data = records;
	const struct sr_record *r;
	struct lines l = {0};
	size_t at = 0, size;
	int err;

	while ((r = next_input(data, bytes, &at, &size)))
		take(&l, place, r, size);
	err = l.size ? file_lines_append(place->rank_fd, l.text, l.size) : 0;
	if (err || l.error)
		log_trace(place->trace_fd, "small inputs of rank %d cannot be noted: %s", place->rank,
			  strerror(-(err ? err : l.error)));
	free(l.text);
	make_pads(data, bytes);
}
