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
#include "logd/writer/files.h"

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

/* The same file may have had other content under another number. */
static void name_file(const struct sr_input_payload *h, char file[96])
{
	snprintf(file, 96, "%llx:%llx:%lld:%u", (unsigned long long)h->device, (unsigned long long)h->inode, (long long)h->changed, h->note);
}

static int add_line(struct file_lines *l, const struct input *in, const char *file, const char *kept, int keep_error)
{
	const struct sr_input_payload *h = &in->head;
	char hash[17];
	const struct file_line line = {.file = file, .path = in->path, .path_bytes = h->path_bytes, .size = h->size,
				       .number = h->note, .xxh3 = hash, .kept = kept,
				       .error = keep_error ? strerror(-keep_error) : NULL};

	snprintf(hash, sizeof(hash), "%016llx", (unsigned long long)h->hash);
	return file_lines_add(l, &line);
}

#define NS_PER_S 1000000000

/* In case that others replace it. */
static void hold(struct read_files *files, const struct input *in, const char *file)
{
	const struct sr_input_payload *h = &in->head;
	const struct stat st = {.st_dev = h->device,
				.st_ino = h->inode,
				.st_size = (off_t)h->size,
				.st_mtim = {h->changed / NS_PER_S, h->changed % NS_PER_S}};

	files_hold(files, &st, in->path, h->path_bytes, file, h->note);
}

/* Returns the last thing that went wrong; there may be a line all the same. */
static int take(struct file_lines *l, const struct inputs_place *place, const struct sr_record *r, size_t size)
{
	struct input in;
	char name[64], file[96];
	int keep_error, err;

	if (!read_input(&in, r, size))
		return -EINVAL;
	keep_error = in.content ? keep(place->trace_fd, &in, name) : 0;
	name_file(&in.head, file);
	err = add_line(l, &in, file, in.content && !keep_error ? name : NULL, keep_error);
	if (!in.content)
		hold(place->files, &in, file);
	return err ? err : keep_error;
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
	struct file_lines l = {0};
	size_t at = 0, size;
	int err = 0, taken;

	while ((r = next_input(data, bytes, &at, &size)))
		if ((taken = take(&l, place, r, size)))
			err = taken;
	taken = l.size ? file_lines_append(place->rank_fd, &l) : 0;
	if (taken)
		err = taken;
	if (err)
		log_trace(place->trace_fd, "small inputs of rank %d cannot be noted: %s", place->rank, strerror(-err));
	file_lines_free(&l);
	make_pads(data, bytes);
}
